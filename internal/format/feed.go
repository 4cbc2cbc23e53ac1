package format

import "encoding/binary"

// A feed block, the value of an 'f' key: entries in the order of their
// positions. The key's position is that of the first entry it was written with: the
// entry may have been removed since.
//
//	entry: uvarint length, key, uvarint length, body
//
// A body with the external flag leaves its value with the record: large values are
// written once only.

// InlineMax is the largest value, in bytes, that a feed block repeats.
const InlineMax = 1 << 10

// AppendFeedEntry appends an entry.
func AppendFeedEntry(dst, key, body []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(key)))
	dst = append(dst, key...)
	dst = binary.AppendUvarint(dst, uint64(len(body)))
	return append(dst, body...)
}

// NextFeedEntry returns the first entry of block and what follows it. The slices
// alias block.
func NextFeedEntry(block []byte) (key, body, rest []byte, err error) {
	r := reader{p: block}
	key = r.bytes(r.uvarint())
	body = r.bytes(r.uvarint())
	if r.bad || len(body) == 0 {
		return nil, nil, nil, ErrCorrupt
	}
	return key, body, r.rest(), nil
}
