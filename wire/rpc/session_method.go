package rpc

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/message"
	wire "github.com/mainstemdev/mainstem/internal/session"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

// sessionMethod is the implementation of a method for sessions.
type sessionMethod struct {
	serve func(*sessionCall) error // answers the call, or returns an error for the client
	quick bool                     // the reader may serve it

	streams bool // it has a stream of answers
}

// sessionMethods has the methods of the protocol file, by number.
var sessionMethods = [...]sessionMethod{
	wire.Commit:        {serve: serveCommit, quick: true},
	wire.Get:           {serve: serveGet, quick: true},
	wire.GetMany:       {serve: serveGetMany, quick: true},
	wire.Scan:          {serve: streaming((*service).scan), streams: true},
	wire.Read:          {serve: streaming((*service).read), streams: true},
	wire.Feed:          {serve: streaming((*service).feed), streams: true},
	wire.Head:          {serve: unary((*service).Head), quick: true},
	wire.CreateSpace:   {serve: unary((*service).CreateSpace)},
	wire.AlterSpace:    {serve: unary((*service).AlterSpace)},
	wire.DropSpace:     {serve: unary((*service).DropSpace)},
	wire.Space:         {serve: unary((*service).Space)},
	wire.Spaces:        {serve: streaming((*service).spaces), streams: true},
	wire.Snapshot:      {serve: unary((*service).Snapshot)},
	wire.CloseSnapshot: {serve: unary((*service).CloseSnapshot)},
	wire.Backup:        {serve: streaming((*service).backup), streams: true},
	wire.Check:         {serve: streaming((*service).check), streams: true},
	wire.Clock:         {serve: unary((*service).Clock)},
	wire.Info:          {serve: unary((*service).Info)},
}

// methodOf returns the method with number m, or the zero method if there is none.
func methodOf(m wire.Method) *sessionMethod {
	if int(m) >= len(sessionMethods) {
		m = 0
	}
	return &sessionMethods[m]
}

// writes reports whether an error of the call has an outcome.
func (c *sessionCall) writes() bool {
	switch c.method {
	case wire.Commit, wire.CreateSpace, wire.AlterSpace, wire.DropSpace:
		return true
	}
	return false
}

// messageOf is a pointer to a message of type T.
type messageOf[T any] interface {
	*T
	proto.Message
}

// unary serves a method with one answer.
func unary[Req, Res any, In messageOf[Req], Out messageOf[Res]](f func(*service, context.Context, In) (Out, error)) func(*sessionCall) error {
	return func(c *sessionCall) error {
		in := In(new(Req))
		if err := c.decode(in); err != nil {
			return err
		}
		out, err := f(c.s.h.service, c, in)
		if err != nil {
			return err
		}
		return c.reply(out)
	}
}

// streaming serves a method with a stream of answers.
func streaming[Req, Res any, In messageOf[Req], Out messageOf[Res]](f func(*service, context.Context, In, func(Out) error) error) func(*sessionCall) error {
	return func(c *sessionCall) error {
		in := In(new(Req))
		if err := c.decode(in); err != nil {
			return err
		}
		if err := f(c.s.h.service, c, in, func(m Out) error { return c.send(m) }); err != nil {
			return err
		}
		c.post(wire.AppendFrame(nil, wire.TypeData, wire.End, c.number))
		return nil
	}
}

// decode decodes the request.
func (c *sessionCall) decode(in proto.Message) error {
	if err := (binaryCodec{c.s.h.o.MaxParts}).Unmarshal(c.request, in); err != nil {
		return c.malformed(err)
	}
	return nil
}

func (c *sessionCall) malformed(err error) error {
	e := mainstem.Errorf(mainstem.KindInvalid, "rpc", "the request cannot be read: %w", err)
	if c.writes() {
		e.Outcome = mainstem.NotWritten
	}
	return e
}

// serveCommit is Commit without messages of Protobuf. It measures the duration of commits, by
// which the reader decides whether to serve the next one.
func serveCommit(c *sessionCall) error {
	began := time.Now()
	b := batches.Get().(*mainstem.Batch)
	defer putBatch(b)
	if err := c.parseBatch(b); err != nil {
		return err
	}
	if c.again {
		if answered, err := c.answerAgain(); answered || err != nil {
			return err
		}
	}
	c.unnamed = b.ID == "" && c.s.outcomes != nil
	receipt, err := c.s.h.service.log.Commit(c, b)
	if err != nil {
		return err
	}
	p := buffers.Get().(*[]byte)
	out := wire.BeginFrame((*p)[:0], wire.TypeData, wire.First|wire.Last|wire.End, c.number)
	out = message.AppendReceipt(out, &receipt)
	c.recordAnswer(out[wire.HeaderSize:])
	err = c.replyFrame(out)
	putBuffer(p, out)
	c.s.h.lastCommit.Store(int64(time.Since(began)))
	return err
}

// parseBatch adds the writes and conditions of the request to the empty batch b, which then
// refers to the bytes of the request.
func (c *sessionCall) parseBatch(b *mainstem.Batch) error {
	if err := checkParts(c.request, (*pb.CommitRequest)(nil), c.s.h.o.MaxParts); err != nil {
		return c.malformed(err)
	}
	return c.unreadable(message.ParseBatch(c.request, b, c.s.h.spaceName, &c.s.h.ensured))
}

// unreadable turns the error of a parser into one for the client. It returns errors of the
// contract unchanged.
func (c *sessionCall) unreadable(err error) error {
	if err == nil || errors.As(err, new(*mainstem.Error)) {
		return err
	}
	return c.malformed(err)
}

// serveGet is Get without messages of Protobuf.
func serveGet(c *sessionCall) error {
	in, err := message.ParseGetRequest(c.request)
	if err != nil {
		return c.malformed(err)
	}
	r, release, err := c.s.h.service.reader("get", in.Snapshot)
	if err != nil {
		return err
	}
	defer release()
	record, err := c.get(r, c.s.h.spaceName(in.Space), in.Key)
	if err != nil {
		return err
	}
	p := buffers.Get().(*[]byte)
	b := wire.BeginFrame((*p)[:0], wire.TypeData, wire.First|wire.Last|wire.End, c.number)
	b = message.AppendGetResponse(b, &record)
	err = c.replyFrame(b)
	putBuffer(p, b)
	return err
}

// serveGetMany answers, without messages of Protobuf, with one message if that can have all
// records and memory is available. Otherwise it answers with a stream.
func serveGetMany(c *sessionCall) error {
	in, err := message.ParseGetManyRequest(c.request)
	if err != nil {
		return c.unreadable(err)
	}
	r, release, err := c.s.h.service.reader("get many", in.Snapshot)
	if err != nil {
		return err
	}
	defer release()
	p := buffers.Get().(*[]byte)
	b := wire.BeginFrame((*p)[:0], wire.TypeData, wire.First|wire.Last|wire.End, c.number)
	defer func() { putBuffer(p, b) }()
	whole := false
	if b, whole, err = c.appendFound(b, r.GetMany(c, c.s.h.spaceName(in.Space), in.Keys)); err != nil {
		return err
	}
	if whole {
		return c.replyFrame(b)
	}
	c.answer.Release()
	c.s.handOver(c)
	return streamMany(c)
}

var streamMany = streaming((*service).pumpMany)

// appendFound appends the records of keys that have a live value. whole is false if one message,
// or the available memory, is too small for them.
func (c *sessionCall) appendFound(b []byte, all records) (_ []byte, whole bool, _ error) {
	turn := reader{places: c.s.h.memory.readers}
	turn.enter(c)
	defer turn.leave()
	space, held := "", false
	for r, err := range all {
		switch {
		case err != nil:
			return b, false, err
		case r.Version == 0:
			continue
		case int64(len(b))+sizeOf(&r) > message.FullBytes:
			return b, false, nil
		case int64(len(b))+sizeOf(&r) > smallAnswer && !held:
			if held = c.answer.Try(copies * message.FullBytes); !held {
				return b, false, nil
			}
		}
		b = message.AppendNext(b, &r, &space)
	}
	return b, true, nil
}

// spaceName returns the name of a space as a string. It usually avoids an allocation.
func (h *Handler) spaceName(name []byte) string {
	if last := h.space.Load(); last != nil && *last == string(name) {
		return *last
	}
	s := string(name)
	if len(s) <= mainstem.MaxSpaceName {
		h.space.Store(&s)
	}
	return s
}

// get reads a record. If that is large, its memory is reserved until the call has ended. If there
// is no memory for it, the record is dropped, and read again when there is.
func (c *sessionCall) get(from mainstem.Reader, space string, key []byte) (mainstem.Record, error) {
	for {
		turn := reader{places: c.s.h.memory.readers}
		turn.enter(c)
		r, err := from.Get(c, space, key)
		turn.leave()
		size := sizeOf(&r)
		if err != nil || size <= smallAnswer {
			return r, err
		}
		more := copies*size - c.answer.Size()
		if more <= 0 || c.answer.Try(more) {
			return r, nil
		}
		c.answer.Release()
		if err := c.waitForAnswer(copies * size); err != nil {
			return mainstem.Record{}, err
		}
	}
}

func (c *sessionCall) waitForAnswer(n int64) error {
	ctx, stop := c.s.h.untilStopped(c)
	defer stop()
	if err := c.answer.Acquire(ctx, n); err != nil {
		return exhausted(err)
	}
	return nil
}
