package bounds

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
)

// The cost of decoding, in bytes of memory, besides the elements of arrays.
const (
	textCost = 16  // of a string, besides its bytes
	tagCost  = 512 // of a tag: the first tag of a structure allocates a map
)

var errShort = errors.New("its counts or lengths are larger than what was sent")

// Check returns how many bytes of memory decoding the body of a request takes, besides the
// body, and how many elements its arrays have together. It fails if kmsg does not know the
// version of the API, if the counts and lengths in the body do not fit its size, or if the cost
// is more than limit. Other mistakes are left to the decoder. The errors have no kind.
func Check(key, version int16, body []byte, limit int) (cost, elements int, err error) {
	l, err := layoutOf(key, version)
	if err != nil {
		return 0, 0, err
	}
	w := walk{src: body, limit: limit}
	w.layout(l)
	return w.cost, w.elements, w.err
}

// CheckTags skips the tags at the beginning of src, as at the end of the header of a request,
// and returns the bytes behind them. It fails if their number or sizes do not fit src.
func CheckTags(src []byte) ([]byte, error) {
	w := walk{src: src, limit: len(src) * tagCost}
	w.tags(false)
	return w.src, w.err
}

// walk is the state of a walk over the body of a request. After an error it makes no further
// progress.
type walk struct {
	src      []byte // the rest of the body
	cost     int    // bytes of memory so far
	elements int    // of arrays so far
	limit    int    // of cost
	err      error  // the first
}

func (w *walk) layout(l *layout) {
	for i := range l.fields {
		if w.field(&l.fields[i], l.tagged); w.err != nil {
			return
		}
	}
	if l.tagged {
		w.tags(l.sealed)
	}
}

func (w *walk) field(f *field, compact bool) {
	switch f.kind {
	case fixed:
		w.skip(f.size)
	case text:
		n := w.length(compact, 2)
		w.skip(n)
		w.pay(n + textCost)
	case blob:
		w.skip(w.length(compact, 4))
	case inline:
		w.layout(f.in)
	case optional:
		if len(w.src) == 0 {
			w.err = errShort
			return
		}
		null := int8(w.src[0]) == -1
		w.skip(1)
		if !null {
			w.pay(f.size)
			w.layout(f.in)
		}
	case array:
		w.array(f, compact)
	}
}

// array walks over an array. Its count is at most the number of bytes left, as in the decoder,
// because an element has at least one byte.
func (w *walk) array(f *field, compact bool) {
	n := w.length(compact, 4)
	if n > len(w.src) {
		w.err = errShort
		return
	}
	w.elements += n
	w.pay(n * f.size)
	if f.of.kind == fixed && w.err == nil {
		w.skip(n * f.of.size)
		return
	}
	for range n {
		if w.err != nil {
			return
		}
		w.field(f.of, compact)
	}
}

// length reads a length or a count, 0 for null: a uvarint of the number plus 1 if compact,
// else size bytes, negative for null.
func (w *walk) length(compact bool, size int) int {
	if compact {
		return max(int(int32(w.uvarint()))-1, 0)
	}
	if len(w.src) < size {
		w.err = errShort
		return 0
	}
	var n int
	if size == 2 {
		n = int(int16(binary.BigEndian.Uint16(w.src)))
	} else {
		n = int(int32(binary.BigEndian.Uint32(w.src)))
	}
	w.src = w.src[size:]
	return max(n, 0)
}

func (w *walk) uvarint() uint32 {
	v, n := kbin.Uvarint(w.src)
	if n <= 0 {
		w.err = errShort
		return 0
	}
	w.src = w.src[n:]
	return v
}

// tags walks over the tags at the end of a structure:
//
//	uvarint: number of tags; for each of them uvarint: tag, uvarint: size, bytes
//
// sealed means that there must be none.
func (w *walk) tags(sealed bool) {
	n := int(w.uvarint())
	if n == 0 || w.err != nil {
		return
	}
	if sealed {
		w.err = errors.New("it has tags that only brokers send")
		return
	}
	if n > len(w.src)/2 { // a tag has a number and a size
		w.err = errShort
		return
	}
	w.pay(n * tagCost)
	for range n {
		w.uvarint()
		size := w.uvarint()
		if w.err != nil {
			return
		}
		w.skip(int(size))
	}
}

// skip moves over n bytes.
func (w *walk) skip(n int) {
	if n > len(w.src) {
		w.err = errShort
		return
	}
	w.src = w.src[n:]
}

// pay adds n bytes of memory to the cost.
func (w *walk) pay(n int) {
	w.cost += n
	if w.cost > w.limit && w.err == nil {
		w.err = fmt.Errorf("decoding it takes more than %d bytes of memory", w.limit)
	}
}
