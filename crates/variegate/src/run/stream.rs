//! Random streams addressed by where they are used, not by when.
//!
//! A [`Stream`] is a name: (seed, chain, purpose, sweep, visit, block, item). [`Stream::rng`] turns it into a generator, Philox 4x64
//! with ten rounds (Salmon, Moraes, Dror and Shaw 2011), whose key is (seed, chain and purpose) and whose counter is (position, item,
//! sweep, visit and block). Nothing about random numbers is ever saved: a resumed run asks for the same names. The same name
//! gives the same numbers on any machine and any number of threads; different names never overlap, because no two share a
//! counter until 2⁶⁴ draws.

use rand::{Rng, TryRng};
use std::convert::Infallible;

/// What a stream is for; keeps the numbers of different parts of a run apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    /// Inside `Program::start`.
    Start = 1,
    /// Inside `Program::local`.
    Local = 2,
    /// Inside `Program::sweep`.
    Sweep = 3,
    /// Inside `Program::visit`.
    Visit = 4,
    /// Predictions that must sample.
    Predict = 5,
    /// Simulated data.
    Simulate = 6,
    /// Splits and shuffles of rows.
    Split = 7,
    /// Checks of samplers.
    Check = 8,
    /// Random features of inputs.
    Features = 9,
    /// Inside `Program::offspring`.
    Offspring = 10,
    /// Scores of a finished fit that must sample.
    Score = 11,
    /// Inside `Program::close`.
    Close = 12,
}

/// The name of a random stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    seed: u64,
    chain: u32,
    purpose: Purpose,
    sweep: u64,
    visit: u32,
    block: u32,
    item: u64,
}

impl Stream {
    /// The first stream of a chain for a purpose.
    pub fn new(seed: u64, chain: u32, purpose: Purpose) -> Self {
        Self { seed, chain, purpose, sweep: 0, visit: 0, block: 0, item: 0 }
    }

    /// Number of the chain.
    pub fn chain(&self) -> u32 {
        self.chain
    }

    /// Same place, other purpose.
    pub fn purpose(self, purpose: Purpose) -> Self {
        Self { purpose, ..self }
    }

    /// Same place in another sweep.
    pub fn sweep(self, sweep: u64) -> Self {
        Self { sweep, ..self }
    }

    /// Same place in another visit of the sweep.
    pub fn visit(self, visit: u32) -> Self {
        Self { visit, ..self }
    }

    /// Same place in another block.
    pub fn block(self, block: u32) -> Self {
        Self { block, ..self }
    }

    /// Same place for another item: a row, a label, a component.
    pub fn item(self, item: u64) -> Self {
        Self { item, ..self }
    }

    /// The generator of this stream, at its beginning.
    pub fn rng(self) -> Philox {
        let key = [self.seed, (self.chain as u64) << 32 | self.purpose as u64];
        Philox::new(key, [0, self.item, self.sweep, (self.visit as u64) << 32 | self.block as u64])
    }
}

const MULTIPLY: [u64; 2] = [0xD2E7_470E_E14C_6C93, 0xCA5A_8263_9512_1157];
const WEYL: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xBB67_AE85_84CA_A73B];

/// Philox 4x64-10: a keyed bijection of a counter, four words a step.
#[derive(Debug, Clone)]
pub struct Philox {
    key: [u64; 2],
    counter: [u64; 4],
    /// Two steps at a time: their rounds interleave, which nearly halves the time of a word.
    buffer: [u64; 8],
    used: usize,
}

impl Philox {
    /// A generator whose first four words are the image of `counter` under `key`.
    pub fn new(key: [u64; 2], counter: [u64; 4]) -> Self {
        Self { key, counter, buffer: [0; 8], used: 8 }
    }

    #[inline(never)]
    fn refill(&mut self) {
        let [c0, c1, c2, c3] = self.counter;
        let [first, second] = bijections(self.key, [self.counter, [c0.wrapping_add(1), c1, c2, c3]]);
        self.buffer[..4].copy_from_slice(&first);
        self.buffer[4..].copy_from_slice(&second);
        self.counter[0] = c0.wrapping_add(2);
        self.used = 0;
    }

    #[inline]
    fn word(&mut self) -> u64 {
        if self.used == 8 {
            self.refill();
        }
        let word = self.buffer[self.used & 7];
        self.used += 1;
        word
    }
}

/// Ten rounds on two counters at once.
#[inline]
fn bijections(mut key: [u64; 2], mut counters: [[u64; 4]; 2]) -> [[u64; 4]; 2] {
    for round in 0..10 {
        if round > 0 {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        for c in &mut counters {
            let a = MULTIPLY[0] as u128 * c[0] as u128;
            let b = MULTIPLY[1] as u128 * c[2] as u128;
            *c = [(b >> 64) as u64 ^ c[1] ^ key[0], b as u64, (a >> 64) as u64 ^ c[3] ^ key[1], a as u64];
        }
    }
    counters
}

impl TryRng for Philox {
    type Error = Infallible;

    #[inline]
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.word() >> 32) as u32)
    }

    #[inline]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.word())
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        for chunk in out.chunks_mut(8) {
            chunk.copy_from_slice(&self.word().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

/// A uniform number in the open interval (0, 1), with 53 random bits: safe to take the logarithm of.
#[inline]
pub fn open01<R: Rng + ?Sized>(rng: &mut R) -> f64 {
    // the half is rounded away above 2⁵², and the largest of all would become 1
    (((rng.next_u64() >> 11) as f64 + 0.5) * (1.0 / (1u64 << 53) as f64)).min(1.0 - 0.5 * f64::EPSILON)
}

/// The finaliser of splitmix64: a bijection of words that sends neighbours to unrelated ones. For choices by number that need no stream.
#[inline]
pub(crate) fn scatter_bits(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The golden ratio in 64 bits, by which splitmix64 steps on.
pub(crate) const GOLDEN: u64 = WEYL[0];

#[cfg(test)]
mod tests {
    use super::*;

    /// A generator that says the same every time.
    struct Constant(u64);

    impl TryRng for Constant {
        type Error = Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Infallible> {
            Ok(self.0 as u32)
        }

        fn try_next_u64(&mut self) -> Result<u64, Infallible> {
            Ok(self.0)
        }

        fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
            out.fill(self.0 as u8);
            Ok(())
        }
    }

    #[test]
    fn uniform_numbers_stay_inside_their_interval() {
        for bits in [0, 1, 1 << 11, u64::MAX >> 1, u64::MAX - 1, u64::MAX] {
            let u = open01(&mut Constant(bits));
            assert!(u > 0.0 && u < 1.0, "{bits}: {u}");
        }
    }

    /// The three known-answer vectors that the authors of Philox publish for 4x64 with ten rounds.
    #[test]
    fn published_known_answers() {
        let pi = [0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0, 0x082efa98ec4e6c89];
        let cases = [
            ([0; 2], [0; 4], [0x16554d9eca36314c, 0xdb20fe9d672d0fdc, 0xd7e772cee186176b, 0x7e68b68aec7ba23b]),
            ([u64::MAX; 2], [u64::MAX; 4], [0x87b092c3013fe90b, 0x438c3c67be8d0224, 0x9cc7d7c69cd777b6, 0xa09caebf594f0ba0]),
            (
                [0x452821e638d01377, 0xbe5466cf34e90c6c],
                pi,
                [0xa528f45403e61d95, 0x38c72dbd566e9788, 0xa5a1610e72fd18b5, 0x57bd43b5e52b7fe6],
            ),
        ];
        for (key, counter, expect) in cases {
            assert_eq!(bijections(key, [[1, 2, 3, 4], counter])[1], expect);
            let mut rng = Philox::new(key, counter);
            assert_eq!([rng.word(), rng.word(), rng.word(), rng.word()], expect);
        }
    }

    #[test]
    fn names_are_addresses() {
        let s = Stream::new(7, 1, Purpose::Visit).sweep(3).visit(2).block(5);
        let take = |s: Stream| -> Vec<u64> {
            let mut r = s.rng();
            (0..9).map(|_| r.next_u64()).collect()
        };
        assert_eq!(take(s), take(s));
        for other in [
            s.sweep(4),
            s.visit(3),
            s.block(6),
            s.item(1),
            s.purpose(Purpose::Sweep),
            Stream::new(8, 1, Purpose::Visit).sweep(3).visit(2).block(5),
        ] {
            assert_ne!(take(s), take(other));
        }
    }

    /// Mean and variance of a million uniforms, and of the pairwise product across neighbouring blocks (independence).
    #[test]
    fn uniforms_have_the_right_moments_across_streams() {
        let n = 1_000_000u32;
        let (mut sum, mut square, mut lag) = (0.0, 0.0, 0.0);
        let mut last = 0.5;
        for b in 0..n {
            let u = open01(&mut Stream::new(1, 0, Purpose::Visit).block(b).rng());
            sum += u - 0.5;
            square += (u - 0.5) * (u - 0.5) - 1.0 / 12.0;
            lag += (u - 0.5) * (last - 0.5);
            last = u;
        }
        let n = n as f64;
        assert!((sum / (n / 12.0).sqrt()).abs() < 4.5);
        assert!((square / (n / 180.0).sqrt()).abs() < 4.5);
        assert!((lag / (n / 144.0).sqrt()).abs() < 4.5);
    }
}
