package partition

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
)

// GroupSpace is the space with the offsets that consumer groups have stored.
const GroupSpace = "topic.group"

// Limits of a stored offset.
const (
	MaxGroup          = 1024    // bytes in the name of a group
	MaxOffsetMetadata = 4 << 10 // bytes in [Offset.Metadata], as Kafka's offset.metadata.max.bytes
)

// Offset is the position of a consumer group in a partition.
type Offset struct {
	Next        int64  // the offset to read next, 0 or more
	LeaderEpoch int32  // as the consumer sent it; -1 if it sent none
	Metadata    string // any text of the consumer, at most MaxOffsetMetadata bytes
}

// Keys of the group space. Numbers are big-endian.
//
//	'o'  length of group (2)  group  length of topic (2)  topic  partition (4)
var groupPolicy = mainstem.Policy{History: 1, TombstoneAge: 24 * time.Hour}

const offsetKind = 'o'

// appendText appends a text with its length, 2 bytes, to dst.
func appendText(dst []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(s))), s...)
}

// offsetPrefix returns the prefix of the keys of all offsets of a group in a topic.
func offsetPrefix(group, topic string) []byte {
	b := make([]byte, 0, 1+2+len(group)+2+len(topic)+4)
	return appendText(appendText(append(b, offsetKind), group), topic)
}

// offsetFormat is the first byte of a stored offset.
const offsetFormat = 1

// offsetHead is the size of a stored offset without metadata.
const offsetHead = 1 + 16 + 8 + 4

// encode returns the value of a stored offset. Numbers are big-endian.
//
//	1 byte format, topic ID (16), offset (8), leader epoch (4), metadata
func (o *Offset) encode(id ID) []byte {
	b := append(make([]byte, 0, offsetHead+len(o.Metadata)), offsetFormat)
	b = append(b, id[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(o.Next))
	b = binary.BigEndian.AppendUint32(b, uint32(o.LeaderEpoch))
	return append(b, o.Metadata...)
}

func decodeOffset(b []byte) (o Offset, id ID, err error) {
	if len(b) < offsetHead || b[0] != offsetFormat {
		return o, id, fmt.Errorf("a stored offset is %d bytes: want at least %d of format %d", len(b), offsetHead, offsetFormat)
	}
	copy(id[:], b[1:])
	o.Next = int64(binary.BigEndian.Uint64(b[17:]))
	o.LeaderEpoch = int32(binary.BigEndian.Uint32(b[25:]))
	o.Metadata = string(b[offsetHead:])
	if o.Next < 0 {
		return o, id, fmt.Errorf("a stored offset is %d", o.Next)
	}
	return o, id, nil
}

// cutText is the inverse of appendText. It returns the bytes after the text.
func cutText(b []byte) (text string, rest []byte, err error) {
	if len(b) < 2 || len(b)-2 < int(binary.BigEndian.Uint16(b)) {
		return "", nil, errors.New("the key ends within a name")
	}
	n := 2 + int(binary.BigEndian.Uint16(b))
	return string(b[2:n]), b[n:], nil
}
