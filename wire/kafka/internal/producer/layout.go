package producer

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
)

// Space is the space of transactional ids, producer ids, and the snapshots of partitions.
const Space = "kafka.producer"

var spacePolicy = mainstem.Policy{History: 1, NoFeed: true, TombstoneAge: time.Hour}

// Keys of the space. All numbers are big-endian; widths are in bytes.
//
//	'i'                                       the first producer id that is not reserved
//	't' transactional id                      a transactional id
//	'o' length (2) transactional id  group    offsets of a group in a transaction, open or ended
//	'p' topic ID (16) partition (4)           the head of a partition
//	'p' topic ID (16) partition (4) 01 id (8) a producer of the partition
//	'p' topic ID (16) partition (4) 02 at (8) aborted transactions, the last ends at offset at
const (
	idsKind         = 'i'
	transactionKind = 't'
	offsetsKind     = 'o'
	partitionKind   = 'p'

	producerPart = 1
	abortedPart  = 2
)

var idsKey = []byte{idsKind}

func transactionKey(id string) []byte { return append([]byte{transactionKind}, id...) }

// offsetsPrefix returns the prefix of the keys of all offsets of a transactional id.
func offsetsPrefix(id string) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{offsetsKind}, uint16(len(id))), id...)
}

func offsetsKey(id, group string) []byte { return append(offsetsPrefix(id), group...) }

// splitOffsetsKey is the inverse of offsetsKey.
func splitOffsetsKey(key []byte) (id, group string, err error) {
	if len(key) >= 3 && key[0] == offsetsKind {
		if n := int(binary.BigEndian.Uint16(key[1:])); len(key) >= 3+n {
			return string(key[3 : 3+n]), string(key[3+n:]), nil
		}
	}
	return "", "", fmt.Errorf("a key of %d bytes belongs to no offsets of a transaction", len(key))
}

// place identifies a partition by the ID of its topic, which is not used again after the topic was
// deleted.
type place struct {
	id  topic.ID
	num int32
}

// compare orders places by topic ID, then by number.
func (p place) compare(q place) int {
	for i := range p.id {
		if p.id[i] != q.id[i] {
			return int(p.id[i]) - int(q.id[i])
		}
	}
	return int(p.num) - int(q.num)
}

// headKeySize is the length of the key of a partition's head.
const headKeySize = 1 + 16 + 4

func headKey(p place) []byte {
	b := append(make([]byte, 0, headKeySize+9), partitionKind)
	return binary.BigEndian.AppendUint32(append(b, p.id[:]...), uint32(p.num))
}

func partKey(p place, kind byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(append(headKey(p), kind), uint64(n))
}

// splitPartKey returns the kind and the number that follow the place in a key of a partition; both
// are 0 for the head.
func splitPartKey(key []byte) (kind byte, n int64, err error) {
	switch {
	case len(key) == headKeySize:
		return 0, 0, nil
	case len(key) == headKeySize+9 && (key[headKeySize] == producerPart || key[headKeySize] == abortedPart):
		return key[headKeySize], int64(binary.BigEndian.Uint64(key[headKeySize+1:])), nil
	}
	return 0, 0, fmt.Errorf("a key of %d bytes belongs to nothing in a partition", len(key))
}
