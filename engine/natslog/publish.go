package natslog

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem"
)

// The headers of JetStream that a commit uses.
const (
	headerExpect = "Nats-Expected-Last-Sequence"
	headerBatch  = "Nats-Batch-Id"
	headerNumber = "Nats-Batch-Sequence"
	headerCommit = "Nats-Batch-Commit"
)

// Errors of the server that a commit understands, by their codes.
const (
	codeWrongLast         = 10071 // another frame came first
	codeWrongLastConstant = 10164 // another frame is on its way
	codeIncomplete        = 10176 // a message of the batch was lost
	codeBatchTooLarge     = 10199
	codeTooManyInflight   = 10210
	codeMaxPayload        = 10054
)

// verdict is what became of one publish.
type verdict int

const (
	taken   verdict = iota // the stream took it
	passed                 // another frame took its place: it was not and will not be written
	refused                // the server did not want it: not written
	unsure                 // no answer
)

// publish sends the messages of a frame, to follow directly after the message with
// sequence last, and returns what became of them.
func (l *Log) publish(parts []part, last uint64) (verdict, error) {
	ctx, cancel := l.try(l.root)
	defer cancel()
	ctx, give := context.WithCancel(ctx)
	defer give()
	l.queue.asking(give)
	defer l.queue.asking(nil)
	expect := []string{strconv.FormatUint(last, 10)}
	batch := ""
	if len(parts) > 1 {
		batch = strconv.FormatUint(rand.Uint64(), 36) + strconv.FormatUint(rand.Uint64(), 36)
	}
	for i, p := range parts {
		msg := &nats.Msg{Subject: l.subject, Data: p.payload, Header: nats.Header{}}
		if i == 0 {
			msg.Header[headerExpect] = expect
		}
		if batch != "" {
			msg.Header[headerBatch], msg.Header[headerNumber] = []string{batch}, []string{strconv.Itoa(i + 1)}
		}
		if i < len(parts)-1 {
			if err := l.conn.PublishMsg(withFacts(msg, p)); err != nil {
				return unsent(err)
			}
			continue
		}
		if batch != "" {
			msg.Header[headerCommit] = []string{"1"}
		}
		reply, err := l.conn.RequestMsgWithContext(ctx, withFacts(msg, p))
		if err != nil {
			return unsent(err)
		}
		return judge(reply.Data, last+uint64(len(parts)))
	}
	return refused, nil
}

// withFacts puts the facts of p into its message, after the headers that the server looks for.
func withFacts(msg *nats.Msg, p part) *nats.Msg {
	msg.Header[header] = []string{base64.RawStdEncoding.EncodeToString(p.meta)}
	return msg
}

// unsent is the verdict on a publish that failed on this side.
func unsent(err error) (verdict, error) {
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionReconnecting):
		return refused, err // nobody has seen the last message
	case errors.Is(err, nats.ErrMaxPayload):
		return refused, &mainstem.Error{Kind: mainstem.KindInvalid, Op: "commit", Err: err, Hint: "raise max_payload of the NATS server"}
	}
	return unsure, unanswered(err)
}

// errUnanswered is the error of a request that was given up: a caller has left, or the
// connection was lost.
var errUnanswered = errors.New("no answer came until the request was given up")

// unanswered returns errUnanswered for an error that says only that the context of a request
// was canceled: a caller that still waits has canceled nothing.
func unanswered(err error) error {
	if errors.Is(err, context.Canceled) {
		return errUnanswered
	}
	return err
}

// ack is the answer of the server to a publish.
type ack struct {
	Stream string `json:"stream"`
	Seq    uint64 `json:"seq"`
	Error  *struct {
		Code        int    `json:"code"`
		ErrCode     int    `json:"err_code"`
		Description string `json:"description"`
	} `json:"error"`
}

// judge reads the answer of the server to a publish whose last message was to have
// the sequence want.
func judge(data []byte, want uint64) (verdict, error) {
	var a ack
	if err := json.Unmarshal(data, &a); err != nil {
		return unsure, fmt.Errorf("the answer to a publish cannot be read: %w", err)
	}
	if a.Error == nil {
		if a.Seq != want {
			return unsure, fmt.Errorf("the stream put the frame at sequence %d, want %d", a.Seq, want)
		}
		return taken, nil
	}
	err := fmt.Errorf("%s (%d)", a.Error.Description, a.Error.ErrCode)
	switch a.Error.ErrCode {
	case codeWrongLast, codeWrongLastConstant:
		return passed, err
	case codeIncomplete:
		return refused, err
	case codeBatchTooLarge:
		return refused, &mainstem.Error{Kind: mainstem.KindInvalid, Op: "commit", Err: err,
			Hint: "raise max_batch_size of the NATS server, or split the batch"}
	case codeTooManyInflight:
		return refused, &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "commit", Err: err,
			Hint: "raise max_batch_inflight_per_stream and max_batch_inflight_total of the NATS server"}
	case codeMaxPayload:
		return refused, &mainstem.Error{Kind: mainstem.KindInvalid, Op: "commit", Err: err, Hint: "raise max_payload of the NATS server"}
	}
	if a.Error.Code >= 500 {
		return unsure, err // it may have been on its way when the server failed
	}
	e := mainstem.Errorf(mainstem.KindUnavailable, "commit", "%w", err)
	if isInvalid(a.Error.Code, a.Error.ErrCode) {
		e.Kind = mainstem.KindInvalid
	}
	return refused, e
}
