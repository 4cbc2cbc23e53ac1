package stream

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/mainstemdev/mainstem/bench/suites/stream"
)

// streamBusFrames is the frame of StreamBus, whose benchmarks are where these cases
// come from, written anew from its description: it has no batches, no compression
// and no checksum that survives the connection, so its frames are smaller than
// Kafka's.
func streamBusFrames() stream.Factory {
	return stream.Factory{
		Name: "streambus-frame", Note: "the layout of StreamBus's frames, not its code: a length, an ID, 28 bytes for each message and a CRC-32",
		Protocol: func() (stream.Protocol, error) { return &busFrames{}, nil },
	}
}

// A frame:
//
//	length u32 (of what follows) | id u64 | type u8 | version u8 | flags u16 | payload | crc32 u32
//
// The payload of a produce request is topic, partition u32, count u32 and messages:
//
//	offset u64 | timestamp u64 | key length u32 | value length u32 | headers u32 | key | value
//
// and that of a fetch request topic, partition u32, offset u64, max u32. A topic is a
// length u32 and its bytes. Numbers are big-endian.
type busFrames struct{ topic string }

const (
	busProduce    = 1
	busFetch      = 2
	busHead       = 4 + 8 + 1 + 1 + 2
	busMessage    = 28
	busFetchFixed = 4 + 8 + 4
	busNullKey    = 1<<32 - 1
)

var errBusFrame = errors.New("malformed frame")

func busBegin(dst []byte, kind byte, topic string) []byte {
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, kind, 1, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(topic)))
	return append(dst, topic...)
}

// busEnd fills in the length and appends the checksum of what lies between.
func busEnd(dst []byte, begin int) []byte {
	binary.BigEndian.PutUint32(dst[begin:], uint32(len(dst)-begin))
	return binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[begin+4:]))
}

func (*busFrames) AppendProduce(dst []byte, topic string, ms []stream.Message) ([]byte, error) {
	begin := len(dst)
	dst = busBegin(dst, busProduce, topic)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(ms)))
	for _, m := range ms {
		keyLen := uint32(len(m.Key))
		if m.Key == nil {
			keyLen = busNullKey
		}
		dst = binary.BigEndian.AppendUint64(dst, 0)
		dst = binary.BigEndian.AppendUint64(dst, 1)
		dst = binary.BigEndian.AppendUint32(dst, keyLen)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(m.Value)))
		dst = binary.BigEndian.AppendUint32(dst, 0)
		dst = append(append(dst, m.Key...), m.Value...)
	}
	return busEnd(dst, begin), nil
}

// payload verifies a frame and returns its topic and what follows it. A topic that is
// the same as the last one is not allocated again.
func (b *busFrames) payload(src []byte, kind byte) (topic string, rest []byte, err error) {
	if len(src) < busHead+4+4 || int(binary.BigEndian.Uint32(src)) != len(src)-4 || src[12] != kind {
		return "", nil, errBusFrame
	}
	end := len(src) - 4
	if crc32.ChecksumIEEE(src[4:end]) != binary.BigEndian.Uint32(src[end:]) {
		return "", nil, errBusFrame
	}
	n := int(binary.BigEndian.Uint32(src[busHead:]))
	rest = src[busHead+4 : end]
	if n > len(rest) {
		return "", nil, errBusFrame
	}
	if b.topic != string(rest[:n]) {
		b.topic = string(rest[:n])
	}
	return b.topic, rest[n:], nil
}

func (b *busFrames) ReadProduce(src []byte, f func(stream.Message) error) (string, error) {
	topic, rest, err := b.payload(src, busProduce)
	if err != nil || len(rest) < 8 {
		return "", errors.Join(err, errBusFrame)
	}
	count := binary.BigEndian.Uint32(rest[4:])
	rest = rest[8:]
	for range count {
		if len(rest) < busMessage {
			return "", errBusFrame
		}
		keyLen, valueLen := uint64(binary.BigEndian.Uint32(rest[16:])), uint64(binary.BigEndian.Uint32(rest[20:]))
		rest = rest[busMessage:]
		var m stream.Message
		if keyLen != busNullKey {
			if keyLen > uint64(len(rest)) {
				return "", errBusFrame
			}
			m.Key, rest = rest[:keyLen:keyLen], rest[keyLen:]
		}
		if valueLen > uint64(len(rest)) {
			return "", errBusFrame
		}
		m.Value, rest = rest[:valueLen:valueLen], rest[valueLen:]
		if err := f(m); err != nil {
			return "", err
		}
	}
	return topic, nil
}

func (*busFrames) AppendFetch(dst []byte, f stream.Fetch) ([]byte, error) {
	begin := len(dst)
	dst = busBegin(dst, busFetch, f.Topic)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	dst = binary.BigEndian.AppendUint64(dst, uint64(f.Offset))
	dst = binary.BigEndian.AppendUint32(dst, uint32(f.Max))
	return busEnd(dst, begin), nil
}

func (b *busFrames) ReadFetch(src []byte) (stream.Fetch, error) {
	topic, rest, err := b.payload(src, busFetch)
	if err != nil || len(rest) != busFetchFixed {
		return stream.Fetch{}, errors.Join(err, errBusFrame)
	}
	return stream.Fetch{
		Topic: topic, Offset: int64(binary.BigEndian.Uint64(rest[4:])), Max: int32(binary.BigEndian.Uint32(rest[12:])),
	}, nil
}
