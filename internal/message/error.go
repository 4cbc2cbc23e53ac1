package message

import (
	"context"
	"errors"
	"strings"

	"connectrpc.com/connect"
	"github.com/mainstemdev/mainstem"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
	"google.golang.org/protobuf/proto"
)

// maxErrorText bounds each text of an error on the wire: errors travel in headers
// in some protocols.
const maxErrorText = 4 << 10

// codes maps kinds to the codes that every RPC client understands. A deadline that
// has passed and missing credentials have codes of their own.
var codes = [...]connect.Code{
	mainstem.KindInternal:    connect.CodeInternal,
	mainstem.KindNotFound:    connect.CodeNotFound,
	mainstem.KindExists:      connect.CodeAlreadyExists,
	mainstem.KindConflict:    connect.CodeAborted,
	mainstem.KindInvalid:     connect.CodeInvalidArgument,
	mainstem.KindDenied:      connect.CodePermissionDenied,
	mainstem.KindCanceled:    connect.CodeCanceled,
	mainstem.KindClosed:      connect.CodeUnavailable,
	mainstem.KindCorrupt:     connect.CodeDataLoss,
	mainstem.KindUnavailable: connect.CodeUnavailable,
	mainstem.KindUnsupported: connect.CodeUnimplemented,
}

// EncodeError makes an RPC error of err that carries all of the [mainstem.Error] in
// its chain. An error without one is internal; outcome is then what it says.
func EncodeError(err error, outcome mainstem.Outcome) *connect.Error {
	var e *mainstem.Error
	if !errors.As(err, &e) {
		e = &mainstem.Error{Kind: mainstem.KindInternal, Outcome: outcome, Err: err}
	}
	code := connect.CodeInternal
	if int(e.Kind) < len(codes) {
		code = codes[e.Kind]
	}
	if e.Kind == mainstem.KindCanceled && errors.Is(err, context.DeadlineExceeded) {
		code = connect.CodeDeadlineExceeded
	}
	out := connect.NewError(code, errors.New(text(e.Error())))
	if detail, detailErr := connect.NewErrorDetail(encodeDetail(e)); detailErr == nil {
		out.AddDetail(detail)
	}
	return out
}

func encodeDetail(e *mainstem.Error) *pb.ErrorDetail {
	out := &pb.ErrorDetail{
		Kind: pb.Kind(e.Kind), Op: text(e.Op), Space: text(e.Space), Key: key(e.Key),
		Outcome: pb.Outcome(e.Outcome), Got: uint64(e.Got), GotLive: e.GotLive, GotPosition: uint64(e.GotPosition), Hint: text(e.Hint),
	}
	if e.Kind == mainstem.KindConflict {
		want := e.Want
		want.Space, want.Key = text(want.Space), key(want.Key)
		out.Want = encodeCondition(want)
	}
	if e.Err != nil {
		out.Cause = text(e.Err.Error())
	}
	return out
}

// AppendError appends what a session says of err: the code, one byte, and the detail that
// EncodeError makes, which has the outcome if err has no [mainstem.Error].
func AppendError(dst []byte, err error, outcome mainstem.Outcome) []byte {
	var c *connect.Error
	if !errors.As(err, &c) {
		c = EncodeError(err, outcome)
	}
	dst = append(dst, byte(c.Code()))
	for _, d := range c.Details() {
		if d.Type() == detailName {
			return append(dst, d.Bytes()...)
		}
	}
	e := &mainstem.Error{Kind: mainstem.KindInternal, Outcome: outcome, Err: c}
	dst, _ = proto.MarshalOptions{}.MarshalAppend(dst, encodeDetail(e)) // its texts are UTF-8: it cannot fail
	return dst
}

// ParseError returns the error in what AppendError has written.
func ParseError(b []byte) (*mainstem.Error, error) {
	if len(b) == 0 {
		return nil, errors.New("the error is empty")
	}
	m := new(pb.ErrorDetail)
	if err := proto.Unmarshal(b[1:], m); err != nil {
		return nil, err
	}
	return decodeDetail(m, connect.Code(b[0])), nil
}

// text returns s as what a message can hold.
func text(s string) string {
	if len(s) > maxErrorText {
		s = s[:maxErrorText] + "..."
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// key returns the part of k that is worth carrying in an error.
func key(k []byte) []byte { return k[:min(len(k), mainstem.MaxKey)] }

// DecodeError returns the [mainstem.Error] that an RPC error carries, or nil if it
// carries none: then it comes from a proxy, from the RPC layer of the server, or
// was made by the client.
func DecodeError(err error) *mainstem.Error {
	var c *connect.Error
	if !errors.As(err, &c) {
		return nil
	}
	for _, d := range c.Details() {
		if d.Type() != detailName {
			continue
		}
		if m, err := d.Value(); err == nil {
			if detail, ok := m.(*pb.ErrorDetail); ok {
				return decodeDetail(detail, c.Code())
			}
		}
	}
	return nil
}

var detailName = string(proto.MessageName((*pb.ErrorDetail)(nil)))

// decodeDetail is total: kinds and outcomes of later versions become the most
// cautious ones that this version knows.
func decodeDetail(in *pb.ErrorDetail, code connect.Code) *mainstem.Error {
	out := &mainstem.Error{
		Kind: mainstem.KindInternal, Op: in.GetOp(), Space: in.GetSpace(), Key: in.GetKey(),
		Outcome: mainstem.Unknown, Got: mainstem.Version(in.GetGot()), GotLive: in.GetGotLive(), GotPosition: mainstem.Position(in.GetGotPosition()),
		Hint: in.GetHint(),
	}
	if k := in.GetKind(); k >= 0 && k <= pb.Kind_KIND_UNSUPPORTED {
		out.Kind = mainstem.Kind(k)
	}
	if o := in.GetOutcome(); o >= 0 && o <= pb.Outcome_OUTCOME_UNKNOWN {
		out.Outcome = mainstem.Outcome(o)
	}
	if in.Want != nil {
		if c, err := decodeCondition(in.Want); err == nil {
			out.Want = c
		}
	}
	if in.GetCause() != "" {
		out.Err = errors.New(in.Cause)
	}
	if out.Kind == mainstem.KindCanceled {
		out.Err = contextCause(in.GetCause(), code)
	}
	return out
}

// contextCause makes the cause of a cancellation that errors.Is recognises.
func contextCause(text string, code connect.Code) error {
	sentinel := context.Canceled
	if code == connect.CodeDeadlineExceeded {
		sentinel = context.DeadlineExceeded
	}
	if text == "" || text == sentinel.Error() {
		return sentinel
	}
	return &causeError{text, sentinel}
}

// causeError has the text that the server sent and the identity of its sentinel.
type causeError struct {
	text     string
	sentinel error
}

func (e *causeError) Error() string { return e.text }
func (e *causeError) Unwrap() error { return e.sentinel }
