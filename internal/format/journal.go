package format

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// A journal is a row of segments, each a file of fixed size that was written once with
// zeros, or that was a segment before. A segment is a header and then frames without
// gaps, each at a multiple of 8 bytes. All numbers are little-endian.
//
// The header of a segment is one sector; its last bytes are zeros:
//
//	| checksum 4 | format 4 | magic 8 | number 8 | journal 16 | last 8 | size 4 | previous end 4 | previous sum 4 | zeros 452 |
//
// A frame is a header of 48 bytes, the effects, and zeros up to a multiple of 8:
//
//	| checksum 4 | previous 4 | effects sum 4 | length 4 | stable 4 | count 4 | first 8 | time 8 | clock 8 | effects, zeros |
//
// The checksum of a frame covers the rest of its header, and with it the checksums of
// the frame before and of its own effects. It begins with the seed of its segment, so no
// frame of an earlier use of the file passes: two different seeds never give the same
// checksum to the same bytes.
const (
	JournalHeader = 512 // bytes of the header of a segment
	JournalFrame  = 48  // bytes of the header of a frame
	JournalFormat = 1   // the newest format of a segment that this package reads

	MaxJournalSegment = 1 << 30 // bytes of a segment

	journalMagic  = "mstmjrnl"
	journalFields = 60 // bytes of a segment's header in use
)

// ErrNewSegment is returned for a segment of a format that this package does not know.
var ErrNewSegment = errors.New("the format of the segment is newer than this program")

// Segment is the header of a segment of the journal.
type Segment struct {
	Number  uint64   // 1, 2, 3 and so on; it is also the name of the file
	Journal [16]byte // random, the same in all segments of a journal
	Last    uint64   // the last position of all segments before, 0 if there was none
	Size    uint32   // bytes of the file
	// PreviousEnd is where the frames of the segment before end, and PreviousSum the
	// checksum of the last of them, or of the header if there are none. This is the
	// durable record of its length. Both are 0 in the first segment of a journal.
	PreviousEnd uint32
	PreviousSum uint32
}

// Seed is what the checksums of the frames of the segment begin with. Of any 2^32
// segments in a row no two have the same.
func (s *Segment) Seed() uint32 {
	return crc32.Checksum(s.Journal[:], castagnoli) ^ uint32(s.Number)*0x9e3779b1
}

// AppendSegment appends the header, [JournalHeader] bytes, and returns its checksum,
// with which the first frame of the segment continues.
func AppendSegment(dst []byte, s *Segment) ([]byte, uint32) {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, JournalFormat)
	dst = append(dst, journalMagic...)
	dst = binary.LittleEndian.AppendUint64(dst, s.Number)
	dst = append(dst, s.Journal[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, s.Last)
	dst = binary.LittleEndian.AppendUint32(dst, s.Size)
	dst = binary.LittleEndian.AppendUint32(dst, s.PreviousEnd)
	dst = binary.LittleEndian.AppendUint32(dst, s.PreviousSum)
	dst = append(dst, make([]byte, JournalHeader-journalFields)...)
	sum := crc32.Checksum(dst[start+4:], castagnoli)
	binary.LittleEndian.PutUint32(dst[start:], sum)
	return dst, sum
}

// DecodeSegment reads the header that p begins with, and its checksum. It returns
// [ErrNewSegment] for a newer format, and [ErrCorrupt].
func DecodeSegment(p []byte) (Segment, uint32, error) {
	if len(p) < JournalHeader || string(p[8:16]) != journalMagic {
		return Segment{}, 0, ErrCorrupt
	}
	sum := binary.LittleEndian.Uint32(p)
	if crc32.Checksum(p[4:JournalHeader], castagnoli) != sum {
		return Segment{}, 0, ErrCorrupt
	}
	if binary.LittleEndian.Uint32(p[4:]) > JournalFormat {
		return Segment{}, 0, ErrNewSegment
	}
	s := Segment{
		Number:      binary.LittleEndian.Uint64(p[16:]),
		Journal:     [16]byte(p[24:40]),
		Last:        binary.LittleEndian.Uint64(p[40:]),
		Size:        binary.LittleEndian.Uint32(p[48:]),
		PreviousEnd: binary.LittleEndian.Uint32(p[52:]),
		PreviousSum: binary.LittleEndian.Uint32(p[56:]),
	}
	if s.Number == 0 || s.Size < JournalHeader || s.Size > MaxJournalSegment || s.PreviousEnd > MaxJournalSegment {
		return Segment{}, 0, ErrCorrupt
	}
	return s, sum, nil
}

// Frame is the header of a frame.
type Frame struct {
	Previous   uint32 // the checksum of the frame before, or of the segment's header
	EffectsSum uint32 // of [EffectsSum]
	Length     uint32 // bytes of effects
	Stable     uint32 // the bytes of this segment that were on stable storage when the frame was written
	Count      uint32 // positions; 0 in a frame that is there only for its mark
	First      uint64 // the first of them, or the next one
	Time       int64  // of its records, unix ns
	Clock      int64  // what the clock showed, unix ns
}

// Size returns the bytes that the frame takes in its segment.
func (f *Frame) Size() int64 { return FrameSize(int64(f.Length)) }

// Last returns the frame's last position; for a frame without any, that before it.
func (f *Frame) Last() uint64 { return f.First + uint64(f.Count) - 1 }

// FrameSize returns the bytes that a frame with n bytes of effects takes.
func FrameSize(n int64) int64 { return JournalFrame + (n+7)&^7 }

// EffectsSum is the checksum of effects.
func EffectsSum(effects []byte) uint32 { return crc32.Checksum(effects, castagnoli) }

// AppendFrame appends a frame of the segment with that seed, and returns its checksum.
// It sets Length and EffectsSum.
func AppendFrame(dst []byte, seed uint32, f *Frame, effects []byte) ([]byte, uint32) {
	f.Length, f.EffectsSum = uint32(len(effects)), EffectsSum(effects)
	start := len(dst)
	dst = append(dst, make([]byte, JournalFrame)...)
	p := dst[start:]
	binary.LittleEndian.PutUint32(p[4:], f.Previous)
	binary.LittleEndian.PutUint32(p[8:], f.EffectsSum)
	binary.LittleEndian.PutUint32(p[12:], f.Length)
	binary.LittleEndian.PutUint32(p[16:], f.Stable)
	binary.LittleEndian.PutUint32(p[20:], f.Count)
	binary.LittleEndian.PutUint64(p[24:], f.First)
	binary.LittleEndian.PutUint64(p[32:], uint64(f.Time))
	binary.LittleEndian.PutUint64(p[40:], uint64(f.Clock))
	sum := crc32.Update(seed, castagnoli, p[4:])
	binary.LittleEndian.PutUint32(p, sum)
	dst = append(dst, effects...)
	var zeros [8]byte
	return append(dst, zeros[:-len(effects)&7]...), sum
}

// DecodeFrame reads the header of a frame that p begins with, and its checksum. space is
// how many bytes the segment has left for it, from the header on. Whether it continues
// the frame before, and its effects, are for the caller to check.
func DecodeFrame(p []byte, seed uint32, space int64) (Frame, uint32, error) {
	if len(p) < JournalFrame {
		return Frame{}, 0, ErrCorrupt
	}
	f := Frame{
		Previous:   binary.LittleEndian.Uint32(p[4:]),
		EffectsSum: binary.LittleEndian.Uint32(p[8:]),
		Length:     binary.LittleEndian.Uint32(p[12:]),
		Stable:     binary.LittleEndian.Uint32(p[16:]),
		Count:      binary.LittleEndian.Uint32(p[20:]),
		First:      binary.LittleEndian.Uint64(p[24:]),
		Time:       int64(binary.LittleEndian.Uint64(p[32:])),
		Clock:      int64(binary.LittleEndian.Uint64(p[40:])),
	}
	// Before the checksum: what is there is searched for frames at every eighth byte.
	if f.First == 0 || f.Size() > space || f.Stable%8 != 0 || f.Stable > MaxJournalSegment || f.First+uint64(f.Count) < f.First {
		return Frame{}, 0, ErrCorrupt
	}
	sum := binary.LittleEndian.Uint32(p)
	if crc32.Update(seed, castagnoli, p[4:JournalFrame]) != sum {
		return Frame{}, 0, ErrCorrupt
	}
	return f, sum, nil
}

// PeekStable returns the mark of the frame that p, at least [JournalFrame] bytes, begins
// with, if it is one.
func PeekStable(p []byte) uint32 { return binary.LittleEndian.Uint32(p[16:]) }

// CheckEffects reports whether p, the effects of f and the zeros behind them, is what
// was written.
func (f *Frame) CheckEffects(p []byte) bool {
	if int64(len(p)) != f.Size()-JournalFrame {
		return false
	}
	for _, b := range p[f.Length:] {
		if b != 0 {
			return false
		}
	}
	return EffectsSum(p[:f.Length]) == f.EffectsSum
}
