package link

import (
	"bytes"
	"testing"

	"github.com/mainstemdev/mainstem/actor/cluster/link/internal/frame"
)

func TestCompressedFrames(t *testing.T) {
	text := bytes.Repeat([]byte("what is said again is short. "), 3000)[:frame.MaxPayload-100]
	noise := make([]byte, 5000)
	for i, x := 0, uint32(1); i < len(noise); i++ {
		x = x*1664525 + 1013904223
		noise[i] = byte(x >> 24)
	}
	for _, c := range []Compression{LZ4, Zstandard} {
		var z compressor
		var back decompressor
		h := frame.Header{Type: frame.Data, Number: 7, Ack: 3, Length: uint32(len(text)), Size: uint32(len(text))}
		whole := z.frame(c, h, text)
		if whole == nil || len(whole) > len(text)/4 {
			t.Fatalf("%s: %d bytes became %d", c, len(text), len(whole))
		}
		got, err := frame.ParseHeader(whole)
		if err != nil || !got.Check(whole) || got.Number != 7 || got.Ack != 3 || int(got.Length) != len(whole)-frame.HeaderSize {
			t.Fatalf("%s: %+v, %v", c, got, err)
		}
		payload, err := back.payload(Compression(got.Compression), whole[frame.HeaderSize:], int(got.Size))
		if err != nil || !bytes.Equal(payload, text) {
			t.Errorf("%s: %d bytes came back, %v", c, len(payload), err)
		}
		h.Length, h.Size = uint32(len(noise)), uint32(len(noise))
		if z.frame(c, h, noise) != nil {
			t.Errorf("%s: noise became shorter", c)
		}
	}
}

// FuzzDecompress: whatever comes, what is decompressed has the size that was said, or
// is refused.
func FuzzDecompress(f *testing.F) {
	var z compressor
	for _, c := range []Compression{LZ4, Zstandard} {
		text := bytes.Repeat([]byte("seed "), 100)
		whole := z.frame(c, frame.Header{Type: frame.Data}, text)
		f.Add(uint8(c), whole[frame.HeaderSize:], uint16(len(text)))
		f.Add(uint8(c), whole[frame.HeaderSize:], uint16(10))
	}
	var back decompressor
	f.Fuzz(func(t *testing.T, c uint8, packed []byte, size uint16) {
		n := min(int(size), frame.MaxPayload)
		payload, err := back.payload(Compression(c), packed[:min(len(packed), frame.MaxPayload)], n)
		if err == nil && len(payload) != n {
			t.Fatalf("%d bytes, want %d", len(payload), n)
		}
	})
}
