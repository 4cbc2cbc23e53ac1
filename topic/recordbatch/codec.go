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

// Codec is how the records of a batch are compressed. The numbers are Kafka's.
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

// String returns the codec's name in Kafka's configuration.
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

// Settings of the compressors. Kafka's own blocks of lz4 and windows of zstd are
// of these sizes: larger ones cost memory at every reader.
const (
	lz4Block   = lz4.Block64Kb
	zstdWindow = 256 << 10
)

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

	// One encoder and one decoder serve all goroutines; used this way they start none.
	zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithWindowSize(zstdWindow), zstd.WithZeroFrames(true))
		if err != nil {
			panic(err) // the options are constants
		}
		return e
	})
	// The decoder is made at once: one that is made in a bubble of testing/synctest has
	// channels that only the bubble may use.
	zstdDecoder = newZstdDecoder()
)

func newZstdDecoder() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return d
}

// compress appends the compressed src to dst.
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

// room is asked before memory is taken for n bytes in all; an error is passed on as it is.
type room func(n int) error

// roomError is an error of room on its way through code whose other errors mean that the
// data is corrupt.
type roomError struct{ error }

func (r room) ask(n int) error {
	if r == nil {
		return nil
	}
	if err := r(n); err != nil {
		return roomError{err}
	}
	return nil
}

// undecodable returns the error for records that cannot be decompressed, or that of room.
func undecodable(c Codec, err error) error {
	var full roomError
	if errors.As(err, &full) {
		return full.error
	}
	return errorf(Corrupt, "the records cannot be decompressed (%s): %v", c, err)
}

// decompress appends the decompressed src to dst, which is empty but for its
// capacity. More than limit bytes are an error. Before it takes memory it asks for it.
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

// inflate appends what r yields to dst, which is empty but for its capacity; there are
// perhaps expect bytes. Its memory doubles as it fills: there is never much more than what
// was decompressed.
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

// zstdBlock is the most that one block of zstd holds; it takes at least 4 bytes.
const zstdBlock = 128 << 10

// unzstd gives the decoder only as much room as src can honestly need, because
// the sizes that frames declare are not to be trusted.
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

// xerialMagic begins the framing of snappy blocks that Java clients write: it is
// followed by two versions of 4 bytes, then by blocks of 4 bytes length and data.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const xerialHeader = 16

var errXerial = errors.New("malformed snappy framing")

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

// snappyRatio is more than snappy can achieve: 3 bytes stand for at most 64.
const snappyRatio = 32

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
	if size := len(dst) + n; size > cap(dst) { // then it grows to a half more at least
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
