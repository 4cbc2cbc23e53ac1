package link

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/mainstemdev/mainstem/actor/cluster/link/internal/frame"
)

// compressor makes compressed frames for one writer. Its frames are valid until reset.
type compressor struct {
	lz4  lz4.Compressor
	zstd *zstd.Encoder    // nil until it is used
	bufs [maxBatch][]byte // one for each frame of a batch, allocated when first used
	used int              // buffers since reset
}

func (z *compressor) reset() { z.used = 0 }

// frame returns a whole frame with h and the compressed payload, nil if that is not shorter.
func (z *compressor) frame(c Compression, h frame.Header, payload []byte) []byte {
	buf := z.buffer()
	var n int
	switch c {
	case LZ4:
		var err error
		if n, err = z.lz4.CompressBlock(payload, buf[frame.HeaderSize:frame.HeaderSize+len(payload)-1]); err != nil || n == 0 {
			return nil
		}
	case Zstandard:
		if z.zstd == nil {
			var err error
			z.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
				zstd.WithWindowSize(segmentSize), zstd.WithEncoderCRC(false))
			if err != nil {
				return nil
			}
		}
		if n = len(z.zstd.EncodeAll(payload, buf[:frame.HeaderSize])) - frame.HeaderSize; n >= len(payload) {
			return nil
		}
	default:
		return nil
	}
	z.used++
	whole := buf[:frame.HeaderSize+n]
	h.Compression, h.Length = uint8(c), uint32(n)
	h.Put(whole)
	frame.Seal(whole)
	return whole
}

// buffer returns the next buffer. It is larger than a frame, so that an encoder whose output is
// longer than its input does not allocate another.
func (z *compressor) buffer() []byte {
	if z.bufs[z.used] == nil {
		z.bufs[z.used] = make([]byte, segmentSize+1<<10)
	}
	return z.bufs[z.used]
}

// decompressor decompresses payloads for one reader.
type decompressor struct {
	zstd *zstd.Decoder
	buf  []byte
}

// payload returns the decompressed payload of a frame, whose header says its size, at most
// frame.MaxPayload. It is an error if the payload decompresses to another size. It is valid until the
// next call.
func (z *decompressor) payload(c Compression, packed []byte, size int) ([]byte, error) {
	if z.buf == nil {
		z.buf = make([]byte, frame.MaxPayload)
	}
	dst := z.buf[:size]
	n := 0
	switch c {
	case LZ4:
		var err error
		if n, err = lz4.UncompressBlock(packed, dst); err != nil {
			return nil, err
		}
	case Zstandard:
		out, err := z.inflate(packed, dst)
		if err != nil {
			return nil, err
		}
		n = len(out)
	default:
		return nil, fmt.Errorf("compression %d", c)
	}
	if n != size {
		return nil, fmt.Errorf("a payload of %d bytes, decompressed %d", size, n)
	}
	return dst, nil
}

// inflate decompresses a Zstandard frame into dst, and fails if that is too short.
func (z *decompressor) inflate(packed, dst []byte) ([]byte, error) {
	if z.zstd == nil {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(segmentSize), zstd.WithDecoderMaxWindow(segmentSize), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return nil, err
		}
		z.zstd = d
	}
	return z.zstd.DecodeAll(packed, dst[:0:len(dst)])
}
