package msgpack

import "errors"

// maxDepth bounds lists and maps within each other. The library has no
// bound, and a stack that overflows ends the process.
const maxDepth = 1000

var (
	errDepth = errors.New("lists and maps are nested deeper than 1000 levels")
	errShort = errors.New("the input ends too early")
	errLong  = errors.New("the input goes on after its value")
	errByte  = errors.New("0xc1 begins no value")
	errExt   = errors.New("an extension stands where another value is wanted")
	errEmpty = errors.New("an extension without content")
)

// check walks over the only value of src without a stack of calls. It
// returns where the contents of extensions begin.
func check(src []byte) (ext []int, err error) {
	left := []uint64{1} // the values that are due on each level
	at := 0
	for len(left) > 0 {
		top := &left[len(left)-1]
		if *top == 0 {
			left = left[:len(left)-1]
			continue
		}
		*top--
		if at == len(src) {
			return nil, errShort
		}
		shape := shapeOf(src[at:])
		size, rest := shape.head+shape.content, uint64(len(src)-at)
		switch {
		case shape.head == 0:
			return nil, errByte
		case size > rest || shape.values > rest-size:
			return nil, errShort
		case shape.ext && shape.content == 0:
			return nil, errEmpty
		case shape.ext:
			ext = append(ext, at+int(shape.head))
		case shape.values > 0 && len(left) > maxDepth:
			return nil, errDepth
		case shape.values > 0:
			left = append(left, shape.values)
		}
		at += int(size)
	}
	if at < len(src) {
		return nil, errLong
	}
	return ext, nil
}

// shape is the shape of one value: its bytes, and how many values
// follow as its elements.
type shape struct {
	head    uint64 // bytes before the content; 0 if this is no value
	content uint64 // bytes
	values  uint64
	ext     bool
}

// shapeOf reads the shape of the first value of src, which is not empty.
// The shape may say more than src holds.
func shapeOf(src []byte) shape {
	switch b := src[0]; {
	case b == 0xc1:
		return shape{}
	case b < 0x80 || b >= 0xe0 || b >= 0xc0 && b <= 0xc3: // numbers, nil, booleans
		return shape{head: 1}
	case b < 0x90:
		return shape{head: 1, values: 2 * uint64(b&0x0f)}
	case b < 0xa0:
		return shape{head: 1, values: uint64(b & 0x0f)}
	case b < 0xc0:
		return shape{head: 1, content: uint64(b & 0x1f)}
	case b <= 0xc6: // bytes
		return sized(src, 1<<(b-0xc4), 0)
	case b <= 0xc9: // an extension: a byte for its type
		return sized(src, 1<<(b-0xc7), 1)
	case b <= 0xcb: // floating point
		return shape{head: 1, content: 4 << (b - 0xca)}
	case b <= 0xcf:
		return shape{head: 1, content: 1 << (b - 0xcc)}
	case b <= 0xd3:
		return shape{head: 1, content: 1 << (b - 0xd0)}
	case b <= 0xd8: // an extension of 1 to 16 bytes
		return shape{head: 2, content: 1 << (b - 0xd4), ext: true}
	case b <= 0xdb: // a string
		return sized(src, 1<<(b-0xd9), 0)
	case b <= 0xdd:
		width := 2 << (b - 0xdc)
		return shape{head: 1 + uint64(width), values: bigEndian(src[1:], width)}
	default:
		width := 2 << (b - 0xde)
		return shape{head: 1 + uint64(width), values: 2 * bigEndian(src[1:], width)}
	}
}

// sized returns the shape of a value that says its length in so many
// bytes, followed by the type of an extension if typed is 1.
func sized(src []byte, width, typed int) shape {
	return shape{head: 1 + uint64(width) + uint64(typed), content: bigEndian(src[1:], width), ext: typed > 0}
}

// bigEndian reads what there is of a number of so many bytes.
func bigEndian(src []byte, width int) (n uint64) {
	for _, b := range src[:min(width, len(src))] {
		n = n<<8 | uint64(b)
	}
	return n
}
