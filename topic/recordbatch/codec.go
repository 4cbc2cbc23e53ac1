package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codec is the compression of the records of a batch. The numbers are Kafka's.
type Codec uint8

// The codecs.
const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// String returns the codec's name in Kafka's configurations.
func (c Codec) String() string {
	if int(c) < len(codecNames) {
		return codecNames[c]
	}
	return fmt.Sprintf("codec %d", uint8(c))
}

// ParseCodec is the inverse of [Codec.String]. The empty string is None.
func ParseCodec(s string) (Codec, error) {
	if i := slices.Index(codecNames[:], s); i >= 0 {
		return Codec(i), nil
	}
	if s == "" {
		return None, nil
	}
	return None, fmt.Errorf("compression %q: want none, gzip, snappy, lz4 or zstd", s)
}

// Settings of the compressors. Larger blocks and windows cost memory at every reader.
const (
	lz4Block   = lz4.Block64Kb
	zstdWindow = 256 << 10
)

// errTooLong says that there are more bytes than the limit.
var errTooLong = fmt.Errorf("they have more than %d bytes", MaxUncompressed)

type gzipReader struct {
	gzip.Reader
	src bytes.Reader
}

type lz4Reader struct {
	*lz4.Reader
	src bytes.Reader
}

var (
	gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}
	gzipReaders = sync.Pool{New: func() any { return new(gzipReader) }}
	lz4Readers  = sync.Pool{New: func() any { return &lz4Reader{Reader: lz4.NewReader(nil)} }}
	lz4Writers  = sync.Pool{New: func() any {
		w := lz4.NewWriter(nil)
		if err := w.Apply(lz4.BlockSizeOption(lz4Block)); err != nil {
			panic(err) // the option is a constant
		}
		return w
	}}

	// One encoder and one decoder serve all goroutines. EncodeAll and DecodeAll start none.
	zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithWindowSize(zstdWindow), zstd.WithZeroFrames(true))
		if err != nil {
			panic(err) // the options are constants
		}
		return e
	})
	// The decoder is made when the program starts: if it were made in a bubble of
	// testing/synctest, only that bubble could use its channels.
	zstdDecoder = newZstdDecoder()
)

// newZstdDecoder returns a decoder that appends at most the capacity that it is given.
func newZstdDecoder() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return d
}

// compress appends src, compressed, to dst.
func compress(dst, src []byte, c Codec) ([]byte, error) {
	switch c {
	case None:
		return append(dst, src...), nil
	case Gzip:
		w := gzipWriters.Get().(*gzip.Writer)
		defer gzipWriters.Put(w)
		return deflate(dst, src, w, w.Reset)
	case LZ4:
		w := lz4Writers.Get().(*lz4.Writer)
		defer lz4Writers.Put(w)
		return deflate(dst, src, w, w.Reset)
	case Snappy: // one raw block, as librdkafka and franz-go write it
		dst = slices.Grow(dst, s2.MaxEncodedLen(len(src)))
		block := s2.EncodeSnappy(dst[len(dst):cap(dst)], src)
		return dst[:len(dst)+len(block)], nil
	case Zstd:
		return zstdEncoder().EncodeAll(src, dst), nil
	}
	return nil, fmt.Errorf("unknown %v", c)
}

// deflate appends src, compressed by w, to dst. reset makes w write to a buffer.
func deflate(dst, src []byte, w io.WriteCloser, reset func(io.Writer)) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	reset(out)
	if _, err := w.Write(src); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// room is the function Room of a decoder: it is called with the bytes that the buffers of the
// decoder will have in all, before they are allocated. nil allows all.
type room func(n int) error

// roomError marks an error of room, until undecodable returns that error as it is. Other errors of
// decompress mean that the data is corrupt.
type roomError struct{ error }

// ask calls r, unless it is nil.
func (r room) ask(n int) error {
	if r == nil {
		return nil
	}
	if err := r(n); err != nil {
		return roomError{err}
	}
	return nil
}

// undecodable returns the error for records that cannot be decompressed: that of room as it is,
// else Corrupt.
func undecodable(c Codec, err error) error {
	var full roomError
	if errors.As(err, &full) {
		return full.error
	}
	return errorf(Corrupt, "the records cannot be decompressed (%s): %v", c, err)
}

// decompress returns src, decompressed, in the memory of dst if that suffices. dst is empty. More
// than limit bytes are errTooLong. It calls ask before it allocates, also for the capacity that dst
// has.
func decompress(dst, src []byte, c Codec, limit int, ask room) ([]byte, error) {
	switch c {
	case None:
		return append(dst, src...), nil
	case Gzip:
		r := gzipReaders.Get().(*gzipReader)
		defer gzipReaders.Put(r)
		r.src.Reset(src)
		if err := r.Reset(&r.src); err != nil {
			return nil, err
		}
		return inflate(dst, r, 4*len(src), limit, ask)
	case LZ4:
		r := lz4Readers.Get().(*lz4Reader)
		defer lz4Readers.Put(r)
		r.src.Reset(src)
		r.Reset(&r.src)
		return inflate(dst, r, 4*len(src), limit, ask)
	case Snappy:
		return unsnap(dst, src, limit, ask)
	case Zstd:
		return unzstd(dst, src, limit, ask)
	}
	return nil, fmt.Errorf("unknown %v", c)
}

// inflate returns the bytes of r, of which there are perhaps expect, in the memory of dst if that
// suffices. dst is empty. The buffer doubles when it is full, so it is never much larger than the
// data.
func inflate(dst []byte, r io.Reader, expect, limit int, ask room) ([]byte, error) {
	const least = 4 << 10
	if err := ask.ask(cap(dst)); err != nil {
		return nil, err
	}
	for {
		if len(dst) == cap(dst) {
			size := min(max(2*cap(dst), expect, least), limit+1)
			if err := ask.ask(size + cap(dst)); err != nil {
				return nil, err
			}
			dst = append(make([]byte, 0, size), dst...)
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) > limit:
			return nil, errTooLong
		case errors.Is(err, io.EOF):
			return dst, nil
		case err != nil:
			return nil, err
		}
	}
}

// zstdBlock is the most bytes that one block of zstd decompresses to (RFC 8878). A block takes at
// least 4 bytes.
const zstdBlock = 128 << 10

// unzstd is decompress for zstd. The size that a frame declares is not trusted: the limit is
// lowered to the most that src can decompress to, block by block. If the buffer is too small, it is
// made four times as large and decompression begins again.
func unzstd(dst, src []byte, limit int, ask room) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return nil, err
	}
	limit = min(limit, (len(src)/4+1)*zstdBlock)
	size := 8*len(src) + zstdBlock
	if h.HasFCS {
		size = int(min(h.FrameContentSize, uint64(limit)))
	}
	for {
		size = min(size, limit)
		if err := ask.ask(max(size, cap(dst))); err != nil {
			return nil, err
		}
		dst = slices.Grow(dst[:0], size)
		out, err := zstdDecoder.DecodeAll(src, dst[:0:min(cap(dst), limit)])
		if !errors.Is(err, zstd.ErrDecoderSizeExceeded) {
			return out, err
		}
		if size == limit {
			return nil, errTooLong
		}
		size = max(4*size, zstdBlock)
	}
}

// xerialMagic begins the framing of snappy that Java clients write. Two versions of 4 bytes follow,
// then blocks: 4 bytes length, big-endian, and the compressed data.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const xerialHeader = 16

var errXerial = errors.New("malformed snappy framing")

// unsnap is decompress for snappy, one raw block or framed blocks.
func unsnap(dst, src []byte, limit int, ask room) ([]byte, error) {
	if !bytes.HasPrefix(src, xerialMagic) {
		return unsnapBlock(dst, src, limit, ask)
	}
	if len(src) < xerialHeader {
		return nil, errXerial
	}
	for src = src[xerialHeader:]; len(src) > 0; {
		if len(src) < 4 {
			return nil, errXerial
		}
		size := binary.BigEndian.Uint32(src)
		src = src[4:]
		if uint64(size) > uint64(len(src)) {
			return nil, errXerial
		}
		var err error
		if dst, err = unsnapBlock(dst, src[:size], limit, ask); err != nil {
			return nil, err
		}
		src = src[size:]
	}
	return dst, nil
}

// snappyRatio is more than snappy can achieve: 3 compressed bytes stand for 64 at most.
const snappyRatio = 32

// unsnapBlock appends the decompressed block src to dst.
func unsnapBlock(dst, src []byte, limit int, ask room) ([]byte, error) {
	n, err := s2.DecodedLen(src)
	if err != nil {
		return nil, err
	}
	if n > limit-len(dst) {
		return nil, errTooLong
	}
	if n > snappyRatio*len(src) {
		return nil, errors.New("the block declares more bytes than it can hold")
	}
	if size := len(dst) + n; size > cap(dst) { // the old buffer, and perhaps half of it more than is needed
		size += cap(dst) + cap(dst)/2
		if err := ask.ask(size); err != nil {
			return nil, err
		}
	} else if err := ask.ask(cap(dst)); err != nil {
		return nil, err
	}
	dst = slices.Grow(dst, n)
	if _, err := s2.Decode(dst[len(dst):len(dst)+n], src); err != nil {
		return nil, err
	}
	return dst[:len(dst)+n], nil
}
