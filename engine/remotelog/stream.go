package remotelog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/message"
	wire "github.com/mainstemdev/mainstem/internal/session"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
	"github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1/mainstemv1connect"
	"google.golang.org/protobuf/proto"
)

// errEnough ends [receive] early without an error.
var errEnough = errors.New("enough")

// streamMethod is a method with a stream of answers, for both transports: its number in a
// session, and the method of the RPC client.
type streamMethod[Req, M any] struct {
	number wire.Method
	rpc    func(mainstemv1connect.LogServiceClient, context.Context, *Req) (*connect.ServerStreamForClient[M], error)
}

// stream has the answers to one call, in a session or by RPC.
type stream[M any] struct {
	session *sessionStream // nil: RPC
	rpc     *connect.ServerStreamForClient[M]
	body    []byte // in a session: the last message received
}

// sessionFailure is an error of a call in a session, as opposed to RPC.
type sessionFailure struct{ error }

func (f sessionFailure) Unwrap() error { return f.error }

// openStream starts a call with a stream of answers.
func openStream[Req, M any, In messageOf[Req]](ctx context.Context, l *Log, c call, t *try, m streamMethod[Req, M], in In) (*stream[M], error) {
	for {
		s, e := l.session(ctx, c, false)
		if e != nil {
			return nil, sessionFailure{e}
		}
		if s == nil {
			out, err := m.rpc(l.client, t.watch(ctx), in)
			return &stream[M]{rpc: out}, err
		}
		p := newRequest()
		b, err := proto.MarshalOptions{}.MarshalAppend(*p, in)
		if err != nil {
			putRequest(p)
			return nil, sessionFailure{c.fail(mainstem.KindInvalid, mainstem.NotWritten, err)}
		}
		*p = b
		out, err := s.open(ctx, m.number, b, &t.connected)
		putRequest(p)
		switch {
		case errors.Is(err, errNotBegun):
			continue
		case err != nil:
			return nil, sessionFailure{err}
		}
		return &stream[M]{session: out}, nil
	}
}

// receive waits for the next message. At the end it returns false, and err returns the reason.
func (s *stream[M]) receive() (there bool) {
	if s.session == nil {
		return s.rpc.Receive()
	}
	s.body, there = s.session.receive()
	return there
}

// message returns the last message received, which it decodes in a session.
func (s *stream[M]) message() (*M, error) {
	if s.session == nil {
		return s.rpc.Msg(), nil
	}
	m := new(M)
	if err := proto.Unmarshal(s.body, any(m).(proto.Message)); err != nil {
		return nil, sessionFailure{fmt.Errorf("%w: a message cannot be read: %w", wire.ErrProtocol, err)}
	}
	return m, nil
}

func (s *stream[M]) err() error {
	if s.session == nil {
		return s.rpc.Err()
	}
	if s.session.err != nil {
		return sessionFailure{s.session.err}
	}
	return nil
}

func (s *stream[M]) close() {
	if s.session == nil {
		_ = s.rpc.Close()
		return
	}
	s.session.close()
}

// lend calls each with the records of the last message received, until each returns false. It
// uses the memory of scratch for the headers of one record after the other.
func lend(s *stream[pb.Records], scratch *mainstem.Headers, each func(mainstem.Record) bool) (*pb.Following, error) {
	keep := func(r mainstem.Record) bool {
		if r.Headers != nil {
			*scratch = r.Headers
		}
		return each(r)
	}
	if s.session != nil {
		following, _, err := message.ParseRecords(s.body, "", *scratch, keep)
		return following, err
	}
	m, space := s.rpc.Msg(), ""
	for _, in := range m.Records {
		record, err := message.DecodeRecord(in, *scratch)
		if err != nil {
			return nil, err
		}
		if record.Space == "" {
			record.Space = space
		}
		space = record.Space
		if !keep(record) {
			break
		}
	}
	return m.Following, nil
}

// receive calls each with every message of one stream, until each returns an error or the stream
// ends.
func receive[Req, M any, In messageOf[Req]](ctx context.Context, l *Log, c call, method streamMethod[Req, M], in In, each func(*M) error) error {
	ctx, release := until(ctx, l.closing)
	defer release()
	if ctx.Err() != nil {
		return c.ended(ctx, mainstem.NoOutcome)
	}
	c.began = time.Now()
	t := new(try)
	s, err := openStream(ctx, l, c, t, method, in)
	if err != nil {
		return c.explain(ctx, t, err)
	}
	defer func() {
		release() // first, since closing would wait for the rest of the stream
		s.close()
	}()
	for s.receive() {
		m, err := s.message()
		if err != nil {
			return c.explain(ctx, t, err)
		}
		if err := each(m); errors.Is(err, errEnough) {
			return nil
		} else if err != nil {
			return err
		}
	}
	if err := s.err(); err != nil {
		if l.closing.Err() != nil {
			return c.closed(mainstem.NoOutcome) // rather than the error of the connection that Close has closed
		}
		return c.explain(ctx, t, err)
	}
	return nil
}
