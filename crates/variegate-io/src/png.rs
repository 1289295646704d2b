//! Pictures: PNG files, and features drawn side by side.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// Longest side of a picture that the format allows.
const LONGEST: usize = (1 << 31) - 1;
/// Pixels that the longer side of a tile has at least.
const TILE: usize = 64;
/// Pixels between tiles and around them.
const BORDER: usize = 2;

const WHITE: [u8; 3] = [255, 255, 255];
const RED: [u8; 3] = [178, 24, 43];
const BLUE: [u8; 3] = [33, 102, 172];
const GREY: [u8; 3] = [160, 160, 160];
const DARK: [u8; 3] = [64, 64, 64];

/// Writes a picture as a PNG file: three bytes a pixel (red, green, blue), row by row from the top. A picture without pixels, or with
/// another number of bytes than its sides say, is refused before anything is written.
pub fn write_png(path: impl AsRef<Path>, width: usize, height: usize, rgb: &[u8]) -> io::Result<()> {
    if !(1..=LONGEST).contains(&width) || !(1..=LONGEST).contains(&height) {
        return Err(refused(format!("a PNG file cannot hold a picture of {width} × {height} pixels")));
    }
    if width.checked_mul(height).and_then(|n| n.checked_mul(3)) != Some(rgb.len()) {
        return Err(refused(format!("a picture of {width} × {height} pixels does not have {} bytes", rgb.len())));
    }
    let mut header = [(width as u32).to_be_bytes(), (height as u32).to_be_bytes()].concat();
    // eight bits a channel, three channels, and the only compression, filtering and order of rows that need no word
    header.extend([8, 2, 0, 0, 0]);
    // every row begins with the number of its filter; 0 is none
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
    for row in rgb.chunks_exact(3 * width) {
        packed.write_all(&[0])?;
        packed.write_all(row)?;
    }
    let packed = packed.finish()?;

    let mut out = BufWriter::new(File::create(path)?);
    out.write_all(b"\x89PNG\r\n\x1a\n")?;
    write_chunk(&mut out, b"IHDR", &header)?;
    // the length of a chunk has 31 bits; what is longer is told in several
    for part in packed.chunks(LONGEST) {
        write_chunk(&mut out, b"IDAT", part)?;
    }
    write_chunk(&mut out, b"IEND", &[])?;
    out.flush()
}

fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// Length, kind, what is told, and the checksum of the last two.
fn write_chunk(out: &mut impl Write, kind: &[u8; 4], told: &[u8]) -> io::Result<()> {
    let mut sum = crc32fast::Hasher::new();
    sum.update(kind);
    sum.update(told);
    out.write_all(&(told.len() as u32).to_be_bytes())?;
    out.write_all(kind)?;
    out.write_all(told)?;
    out.write_all(&sum.finalize().to_be_bytes())
}

/// Draws features, each a name and `rows` × `cols` numbers row by row, as tiles of a sheet that is about square: its width, its height,
/// and its pixels as [`write_png`] takes them. Tiles follow one another as lines of text do, in the order of the features; the names are
/// not drawn.
///
/// White is 0, red is positive and blue negative, and full colour is the largest absolute value of all features, so that all tiles have one
/// scale. Infinite numbers have full colour and no part in the scale; what is not a number, or missing, is grey. A number is a square
/// of `scale` pixels, or of as many as give the longer side of a tile 64 pixels, if these are more. Without features, or with features
/// of no numbers, the sheet is empty: 0 × 0 pixels.
pub fn feature_sheet(features: &[(String, Vec<f64>)], rows: usize, cols: usize, scale: usize) -> (usize, usize, Vec<u8>) {
    let (count, longer) = (features.len(), rows.max(cols));
    if count == 0 || rows == 0 || cols == 0 {
        return (0, 0, Vec::new());
    }
    let scale = scale.max(TILE.div_ceil(longer));
    let (tall, wide) = (rows * scale + BORDER, cols * scale + BORDER);
    // as many tiles side by side as make the sheet about square
    let across = ((count as f64 * tall as f64 / wide as f64).sqrt().round() as usize).clamp(1, count);
    let (width, height) = (across * wide + BORDER, count.div_ceil(across) * tall + BORDER);
    let shown = |feature: &[f64]| feature.iter().take(rows * cols).filter(|v| v.is_finite()).fold(0.0, |top: f64, v| top.max(v.abs()));
    let top = features.iter().map(|(_, feature)| shown(feature)).fold(0.0, f64::max);

    let mut rgb = DARK.repeat(width * height);
    for (at, (_, feature)) in features.iter().enumerate() {
        let (above, left) = (BORDER + at / across * tall, BORDER + at % across * wide);
        for y in 0..rows * scale {
            let line = 3 * ((above + y) * width + left);
            let line = &mut rgb[line..line + 3 * cols * scale];
            for (j, square) in line.chunks_exact_mut(3 * scale).enumerate() {
                let colour = colour(feature.get(y / scale * cols + j).copied().unwrap_or(f64::NAN), top);
                square.chunks_exact_mut(3).for_each(|pixel| pixel.copy_from_slice(&colour));
            }
        }
    }
    (width, height, rgb)
}

/// From white at 0 in even steps to red at `top`, and to blue at −`top`.
fn colour(value: f64, top: f64) -> [u8; 3] {
    if value.is_nan() {
        return GREY;
    }
    let full = if value > 0.0 { RED } else { BLUE };
    let share = if value == 0.0 { 0.0 } else { (value.abs() / top).min(1.0) };
    std::array::from_fn(|c| (WHITE[c] as f64 + share * (full[c] as f64 - WHITE[c] as f64)).round() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::ZlibDecoder;
    use std::io::Read;

    /// CRC-32 bit by bit, as the PNG standard defines it.
    fn checksum(bytes: &[u8]) -> u32 {
        let mut sum = u32::MAX;
        for &byte in bytes {
            sum ^= byte as u32;
            for _ in 0..8 {
                sum = if sum & 1 == 1 { 0xEDB8_8320 ^ (sum >> 1) } else { sum >> 1 };
            }
        }
        !sum
    }

    /// Width, height and pixels of an 8-bit RGB file without filters.
    fn decode(file: &[u8]) -> (usize, usize, Vec<u8>) {
        assert_eq!(&file[..8], b"\x89PNG\r\n\x1a\n");
        let number = |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().unwrap());
        let (mut at, mut kinds, mut header, mut packed) = (8, Vec::new(), Vec::new(), Vec::new());
        while at < file.len() {
            let end = at + 8 + number(at) as usize;
            assert_eq!(number(end), checksum(&file[at + 4..end]));
            match &file[at + 4..at + 8] {
                b"IHDR" => header = file[at + 8..end].to_vec(),
                b"IDAT" => packed.extend(&file[at + 8..end]),
                kind => assert_eq!(kind, b"IEND"),
            }
            kinds.push(file[at + 4..at + 8].to_vec());
            at = end + 4;
        }
        assert_eq!(kinds, [b"IHDR", b"IDAT", b"IEND"]);
        assert_eq!(header[8..], [8, 2, 0, 0, 0]);
        let side = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap()) as usize;
        let mut raw = Vec::new();
        ZlibDecoder::new(&packed[..]).read_to_end(&mut raw).unwrap();
        let rgb = raw.chunks_exact(1 + 3 * side(0)).flat_map(|row| {
            assert_eq!(row[0], 0);
            row[1..].to_vec()
        });
        (side(0), side(4), rgb.collect())
    }

    #[test]
    fn files_hold_the_picture() {
        let folder = tempfile::tempdir().unwrap();
        for (width, height) in [(1, 1), (3, 2), (300, 257)] {
            let path = folder.path().join(format!("{width}.png"));
            let rgb: Vec<u8> = (0..3 * width * height).map(|i| (i * i / 7 % 251) as u8).collect();
            write_png(&path, width, height, &rgb).unwrap();
            assert_eq!(decode(&std::fs::read(path).unwrap()), (width, height, rgb));
        }
    }

    #[test]
    fn pictures_that_are_none_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none.png");
        for (width, height, bytes) in [(0, 1, 0), (1, 0, 0), (2, 2, 11), (2, 2, 13), (1 << 31, 1, 3), (LONGEST, LONGEST, 3)] {
            let error = write_png(&path, width, height, &vec![0; bytes]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        assert!(!path.exists());
        assert_eq!(write_png(folder.path().join("no/such"), 1, 1, &[0; 3]).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    fn features(values: &[&[f64]]) -> Vec<(String, Vec<f64>)> {
        values.iter().enumerate().map(|(k, v)| (format!("f{k}"), v.to_vec())).collect()
    }

    fn pixel(sheet: &(usize, usize, Vec<u8>), x: usize, y: usize) -> [u8; 3] {
        sheet.2[3 * (y * sheet.0 + x)..][..3].try_into().unwrap()
    }

    #[test]
    fn colours_run_from_blue_over_white_to_red() {
        assert_eq!([-2.0, 0.0, -0.0, 2.0].map(|v| colour(v, 2.0)), [BLUE, WHITE, WHITE, RED]);
        assert_eq!(colour(1.0, 2.0), [217, 140, 149]);
        assert_eq!(colour(-1.0, 2.0), [144, 179, 214]);
        assert_eq!([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0].map(|v| colour(v, 0.0)), [GREY, RED, BLUE, WHITE]);
    }

    /// One feature of 2 × 4 numbers: squares of 16 pixels in a frame.
    #[test]
    fn one_feature() {
        let sheet = feature_sheet(&features(&[&[-4.0, 0.0, f64::NAN, 4.0, 2.0, -2.0, f64::INFINITY]]), 2, 4, 1);
        assert_eq!((sheet.0, sheet.1, sheet.2.len()), (64 + 4, 32 + 4, 3 * 68 * 36));
        let expected = [[BLUE, WHITE, GREY, RED], [colour(2.0, 4.0), colour(-2.0, 4.0), RED, GREY]];
        for y in 0..36 {
            for x in 0..68 {
                let inside = (2..34).contains(&y) && (2..66).contains(&x);
                assert_eq!(pixel(&sheet, x, y), if inside { expected[(y - 2) / 16][(x - 2) / 16] } else { DARK }, "{x} {y}");
            }
        }
    }

    /// Five tiles of 3 × 3 numbers are two side by side, and the range is that of all; the place of a sixth is empty.
    #[test]
    fn tiles_have_one_scale() {
        let flat = |v: f64| vec![v; 9];
        let values: Vec<Vec<f64>> = [0.5, 1.0, -2.0, 0.0, f64::NAN].map(flat).to_vec();
        let slices: Vec<&[f64]> = values.iter().map(|v| &v[..]).collect();
        let sheet = feature_sheet(&features(&slices), 3, 3, 5);
        // 64/3 is not whole: 22 pixels a number
        assert_eq!((sheet.0, sheet.1), (2 * 68 + 2, 3 * 68 + 2));
        let centre = |k: usize| pixel(&sheet, 35 + 68 * (k % 2), 35 + 68 * (k / 2));
        assert_eq!(std::array::from_fn(centre), [colour(0.5, 2.0), colour(1.0, 2.0), BLUE, WHITE, GREY, DARK]);
        // the border between tiles
        assert_eq!([67, 68, 69, 70].map(|x| pixel(&sheet, x, 35)), [colour(0.5, 2.0), DARK, DARK, colour(1.0, 2.0)]);
    }

    #[test]
    fn scales_and_shapes() {
        let sides = |count: usize, rows: usize, cols: usize, scale: usize| {
            let sheet = feature_sheet(&vec![("".into(), vec![0.0; rows * cols]); count], rows, cols, scale);
            assert_eq!(sheet.2.len(), 3 * sheet.0 * sheet.1);
            // without a number other than 0 all is white
            assert!(sheet.2.chunks_exact(3).all(|p| p == WHITE || p == DARK));
            (sheet.0, sheet.1)
        };
        assert_eq!(sides(1, 28, 28, 0), (28 * 3 + 4, 28 * 3 + 4));
        assert_eq!(sides(1, 28, 28, 4), (28 * 4 + 4, 28 * 4 + 4));
        assert_eq!(sides(1, 100, 50, 1), (54, 104));
        // wide tiles lie above one another, tall ones side by side
        assert_eq!(sides(4, 1, 64, 1), (68, 4 * 3 + 2));
        assert_eq!(sides(4, 64, 1, 1), (4 * 3 + 2, 68));
        assert_eq!(sides(16, 8, 8, 8), (4 * 66 + 2, 4 * 66 + 2));
        assert_eq!([sides(0, 8, 8, 8), sides(3, 0, 8, 8), sides(3, 8, 0, 8)], [(0, 0); 3]);
    }
}
