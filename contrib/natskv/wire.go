package natskv

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem/kv"
)

// Headers of JetStream and of its key-value stores.
const (
	headerOperation   = "KV-Operation"
	headerRollup      = "Nats-Rollup"
	headerTTL         = "Nats-TTL"
	headerMarker      = "Nats-Marker-Reason"
	headerExpected    = "Nats-Expected-Last-Subject-Sequence"
	headerSequence    = "Nats-Sequence"
	headerTime        = "Nats-Time-Stamp"
	headerSubject     = "Nats-Subject"
	headerStream      = "Nats-Stream"
	headerPending     = "Nats-Num-Pending"
	headerLast        = "Nats-Last-Sequence"
	headerUpTo        = "Nats-UpTo-Sequence"
	headerBatch       = "Nats-Batch-Id"
	headerBatchSeq    = "Nats-Batch-Sequence"
	headerBatchCommit = "Nats-Batch-Commit"
)

// apiError is how JetStream says no.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string {
	return fmt.Sprintf("jetstream: %s (%d)", e.Description, e.ErrCode)
}

// Codes of JetStream's errors.
const (
	codeUnavailable     = 10008
	codeMaxConsumers    = 10026
	codeNoMessage       = 10037
	codeStoreNotCreated = 10049
	codeStreamExists    = 10058
	codeStreamNotFound  = 10059
	codeWrongSequence   = 10071
	codeMaxBytes        = 10077 // and of messages and messages per subject
	codeTooLarge        = 10054
	codeNotEnabled      = 10076
	codeNotForAccount   = 10039
	codeTTLInvalid      = 10165
	codeTTLDisabled     = 10166
	codeAtomicDisabled  = 10174
)

func isCode(err error, code int) bool {
	if err == nil { // what follows would allocate for every write
		return false
	}
	var e *apiError
	return errors.As(err, &e) && e.ErrCode == code
}

// ack is the answer to a publish.
type ack struct {
	Seq   uint64    `json:"seq"`
	Count int       `json:"count"`
	Error *apiError `json:"error"`
}

// parseAck reads the answer to a publish and returns its sequence.
func parseAck(data []byte) (uint64, error) {
	if seq, ok := fastAck(data); ok {
		return seq, nil
	}
	a, err := decodeAck(data)
	return a.Seq, err
}

func decodeAck(data []byte) (ack, error) {
	var a ack
	if err := json.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("the acknowledgement %.100q is not JSON: %w", data, err)
	}
	if a.Error != nil {
		return ack{}, a.Error
	}
	if a.Seq == 0 {
		return a, fmt.Errorf("the acknowledgement %.100q has no sequence", data)
	}
	return a, nil
}

// fastAck reads {"stream":"NAME","seq":N}, as servers without a domain write it.
func fastAck(data []byte) (uint64, bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"stream":"`))
	if !ok {
		return 0, false
	}
	i := bytes.IndexByte(rest, '"')
	if i < 0 || bytes.IndexByte(rest[:i], '\\') >= 0 {
		return 0, false
	}
	digits, ok := bytes.CutPrefix(rest[i:], []byte(`","seq":`))
	if !ok || len(digits) < 2 || digits[len(digits)-1] != '}' || digits[0] == '0' {
		return 0, false
	}
	return parseDigits(digits[:len(digits)-1])
}

func parseDigits(s []byte) (uint64, bool) {
	if len(s) == 0 || len(s) > 18 {
		return 0, false
	}
	n := uint64(0)
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, true
}

// message is one message of a bucket.
type message struct {
	subject string
	seq     uint64
	time    time.Time
	header  nats.Header
	data    []byte
}

// parseDirect reads the answer to a direct get. A key that has no message is
// errNoMessage.
func parseDirect(m *nats.Msg) (message, error) {
	if len(m.Header) == 0 {
		return message{}, fmt.Errorf("the answer %.100q to a direct get has no headers", m.Data)
	}
	if s := statusOf(m); s != "" && len(m.Data) == 0 {
		if s == "404" {
			return message{}, errNoMessage
		}
		return message{}, fmt.Errorf("jetstream: %s %s", s, m.Header.Get("Description"))
	}
	seq, ok := parseDigits([]byte(m.Header.Get(headerSequence)))
	if !ok {
		return message{}, fmt.Errorf("the answer to a direct get has the sequence %.40q", m.Header.Get(headerSequence))
	}
	at, err := time.Parse(time.RFC3339Nano, m.Header.Get(headerTime))
	if err != nil {
		return message{}, fmt.Errorf("the answer to a direct get: %w", err)
	}
	return message{subject: m.Header.Get(headerSubject), seq: seq, time: at, header: ownHeader(m.Header), data: m.Data}, nil
}

// addedHeaders are what servers put before the headers of messages that they were asked for.
var addedHeaders = [...]string{headerStream, headerSubject, headerSequence, headerTime, headerPending, headerLast, headerUpTo}

// ownHeader returns h, or nil if there is nothing in it but what the server has added:
// then nobody needs to look through it again.
func ownHeader(h nats.Header) nats.Header {
	if len(h) > len(addedHeaders) {
		return h
	}
	added := 0
	for _, name := range addedHeaders {
		if _, ok := h[name]; ok {
			added++
		}
	}
	if added < len(h) {
		return h
	}
	return nil
}

// parseDelivery reads the reply subject of a message that a consumer delivered:
//
//	$JS.ACK.<stream>.<consumer>.<deliveries>.<sequence>.<number>.<time>.<pending>
//	$JS.ACK.<domain>.<account>.<stream>.<consumer>.<deliveries>.<sequence>.<number>.<time>.<pending>[.<random>]
func parseDelivery(reply string) (d delivery, ok bool) {
	rest, ok := strings.CutPrefix(reply, "$JS.ACK.")
	if !ok {
		return d, false
	}
	fields := strings.Split(rest, ".")
	switch {
	case len(fields) == 7:
		fields = fields[3:]
	case len(fields) >= 9:
		fields = fields[5:]
	default:
		return d, false
	}
	var n [4]uint64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseUint(fields[i], 10, 64); err != nil {
			return d, false
		}
	}
	return delivery{seq: n[0], number: n[1], time: int64(n[2]), pending: n[3]}, true
}

// delivery says where a delivered message stands.
type delivery struct {
	seq     uint64 // in the stream
	number  uint64 // among what the consumer delivered
	time    int64  // unix nanoseconds
	pending uint64 // messages that are still to come
}

// operation returns what a message did to its key.
func operation(h nats.Header) kv.Op {
	if len(h) == 0 {
		return kv.OpUpdate
	}
	switch h.Get(headerOperation) {
	case "DEL":
		return kv.OpDelete
	case "PURGE":
		return kv.OpPurge
	}
	switch h.Get(headerMarker) {
	case "":
		return kv.OpUpdate
	case "MaxAge":
		return kv.OpExpire
	case "Purge":
		return kv.OpPurge
	}
	return kv.OpDelete
}

// forEver is the time to live of a message that no limit of its stream removes.
const forEver = time.Duration(-1)

// ttlOf returns the time to live of a message: 0 if it has none of its own.
func ttlOf(h nats.Header) time.Duration {
	s := h.Get(headerTTL)
	if s == "" {
		return 0
	}
	if strings.EqualFold(s, "never") {
		return forEver
	}
	if d, err := time.ParseDuration(s); err == nil {
		return max(0, d.Truncate(time.Second))
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, int64(math.MaxInt64/time.Second))) * time.Second // 292 years, if it is more
}
