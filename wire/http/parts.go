package viewhttp

import "bytes"

// A document in JSON can take far more memory than its bytes: an empty header has three bytes, and
// is a struct of 56 in a slice that has grown. So the parts of a document are counted before it is
// decoded: members, elements, arrays and objects.
const (
	// smallDocument is the size, in bytes, up to which the copies of a document cover its parts.
	smallDocument = 64 << 10
	// partMemory is what a part takes in memory, at most about.
	partMemory = 128
	// minMaxParts and partsOfWrite bound the parts of a document: as many as full batches have.
	minMaxParts  = 2_000_000
	partsOfWrite = 20
)

// document reads the request as JSON, and takes memory for what it is decoded to.
func (c *call) document() ([]byte, error) {
	data, err := c.body(c.h.o.MaxBody, jsonCopies)
	if err != nil || len(data) <= smallDocument {
		return data, err
	}
	n, most := countParts(data), max(minMaxParts, partsOfWrite*c.h.o.Limits.MaxBatchWrites)
	if n > most {
		return nil, invalid("the document has %d members and elements: the limit is %d; split it", n, most)
	}
	return data, c.reserve(int64(n) * partMemory)
}

// countParts returns the number of parts of a document, which may be malformed. It does not count
// those of values called json and data, which stay bytes.
//
// Invariant: no struct that is decoded has another kind of field of these names.
func countParts(data []byte) int {
	n := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case ',', '[', '{':
			n++
		case '"':
			end := endOfText(data, i)
			name := data[i+1 : max(end-1, i+1)]
			if i = end - 1; string(name) == "json" || string(name) == "data" {
				i = endOfNested(data, end) - 1
			}
		}
	}
	return n
}

// endOfText returns where the text that begins at i ends, len(data) if it does not.
func endOfText(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}

// endOfNested returns where the array or object behind a colon ends, if there is one at i, else i.
func endOfNested(data []byte, i int) int {
	rest := bytes.TrimLeft(data[i:], " \t\r\n")
	if len(rest) == 0 || rest[0] != ':' {
		return i
	}
	rest = bytes.TrimLeft(rest[1:], " \t\r\n")
	if len(rest) == 0 || rest[0] != '[' && rest[0] != '{' {
		return i
	}
	depth := 0
	for at := len(data) - len(rest); at < len(data); at++ {
		switch data[at] {
		case '"':
			at = endOfText(data, at) - 1
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return at + 1
			}
		}
	}
	return len(data)
}
