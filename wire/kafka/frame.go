package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/wire/kafka/internal/bounds"
)

// header is the header of a request, see the Kafka protocol guide, "Request Header v1" and
// "v2":
//
//	API key (2)  version (2)  correlation ID (4)  length of client ID (2), -1 for null
//	client ID  v2: tags, which are skipped
type header struct {
	key           int16
	version       int16
	correlationID int32
	clientID      string
}

// headerSize is the size of key, version and correlation ID: a shorter request is refused
// before it is read.
const headerSize = 8

var errShort = errors.New("the request is too short")

// parseHeader splits a request, without its length, into header and body, which is part of
// frame. flexible returns, given key and version, whether the header is of version 2. With an
// error, the header has the fields that could be read.
func parseHeader(frame []byte, flexible func(key, version int16) bool) (header, []byte, error) {
	if len(frame) < headerSize {
		return header{}, nil, errShort
	}
	r := kbin.Reader{Src: frame}
	h := header{key: r.Int16(), version: r.Int16(), correlationID: r.Int32()}
	if id := r.NullableString(); id != nil {
		h.clientID = *id
	}
	if r.Ok() && flexible(h.key, h.version) {
		var err error
		if r.Src, err = bounds.CheckTags(r.Src); err != nil {
			return h, nil, fmt.Errorf("header of %s v%d: %w", kmsg.NameForKey(h.key), h.version, err)
		}
	}
	if !r.Ok() {
		return h, nil, fmt.Errorf("header of %s v%d: %w", kmsg.NameForKey(h.key), h.version, errShort)
	}
	return h, r.Src, nil
}

// apiOf returns the API key of a request, -1 if the request is too short to have one.
func apiOf(frame []byte) int16 {
	if len(frame) < 2 {
		return -1
	}
	return int16(binary.BigEndian.Uint16(frame))
}

// appendAnswer appends the frame of an answer to dst:
//
//	size (4)  correlation ID (4)  flexible versions: 0, no tags (1)  body
func appendAnswer(dst []byte, correlationID int32, resp kmsg.Response) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		dst = append(dst, 0) // no tags; the header of an ApiVersions answer never has them, so that any client can read it (KIP-511)
	}
	dst = resp.AppendTo(dst)
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}
