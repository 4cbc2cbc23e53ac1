package link

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/mainstemdev/mainstem/actor/cluster/link/internal/frame"
)

// The handshake of a connection, after that of TLS. The messages are in package frame.
//
//	dialer                                   acceptor
//	  call: Hello                        ->
//	                                     <-    challenge: Challenge, or Refusal
//	  Proof, with MAC(dialer)            ->
//	                                     <-    welcome: Welcome, with MAC(acceptor)
//
// Both ends hash all messages into a transcript as they are sent and received. A MAC covers the
// transcript before its message and the signed fields of the message, so it holds for these two
// nonces, names and incarnations only (see transcript.mac). The dialer proves itself first: an
// acceptor states nothing about sessions to a stranger. A Refusal has no MAC: it fails this
// connection and ends no session.

// shake is a connection during its handshake. One goroutine uses it.
type shake struct {
	e     *Endpoint
	net   net.Conn // with TLS, or raw itself
	raw   net.Conn
	state *tls.ConnectionState // nil without TLS
	seen  *transcript
	stop  func() bool // for a dialer: stops closing the connection at the end of its owner; else nil
}

// secure does the TLS handshake of a new connection, unless Options.Plain is set. It sets one
// deadline for the whole handshake, also that of the messages that follow; done removes it.
func (e *Endpoint) secure(raw net.Conn, accepted bool) (*shake, error) {
	h := &shake{e: e, net: raw, raw: raw}
	if err := raw.SetDeadline(time.Now().Add(e.o.HandshakeTimeout)); err != nil {
		return nil, err
	}
	if !e.o.Plain {
		var c *tls.Conn
		if accepted {
			c = tls.Server(raw, e.serverTLS)
		} else {
			c = tls.Client(raw, e.clientTLS)
		}
		if err := c.Handshake(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRefused, err)
		}
		state := c.ConnectionState()
		h.net, h.state = c, &state
	}
	var err error
	h.seen, err = newTranscript(e.key, h.state)
	return h, err
}

// done removes the deadline of the handshake, and the tie to the dialer's owner.
func (h *shake) done() error {
	if h.stop != nil {
		h.stop()
	}
	return h.raw.SetDeadline(time.Time{})
}

// carry makes the connection carry a stream, see [stream.attach]. If the session is leaving, it
// writes a farewell instead, since the peer would wait for another connection.
func (h *shake) carry(s *stream, taken uint64) error {
	err := h.done()
	if err == nil {
		err = s.attach(h.net, h.raw, taken)
	}
	if err != nil && s.p.leaving.Load() {
		h.sayBye(s.handled.Load())
	}
	return err
}

// sayBye writes a farewell to a connection that carries no stream. Like [conn.leave] it leaves the
// close to the peer, for the farewell time.
func (h *shake) sayBye(ack uint64) {
	if h.raw.SetDeadline(time.Now().Add(farewell)) != nil {
		return
	}
	if _, err := h.net.Write(appendBye(nil, ack, frame.Farewell{})); err == nil {
		_, _ = io.Copy(io.Discard, h.net)
	}
}

// close closes the connection.
func (h *shake) close() {
	if h.stop != nil {
		h.stop()
	}
	_ = h.raw.Close()
}

// send writes a message of the handshake.
func (h *shake) send(message []byte) error {
	h.seen.Write(message)
	_, err := h.net.Write(message)
	return err
}

// receive reads a message of the handshake, with its preface, and not a byte more: frames may follow
// it. It fails with ErrRefused if the message is a Refusal or of another step.
func (h *shake) receive(want frame.Step) ([]byte, error) {
	whole := make([]byte, frame.PrefaceSize, frame.PrefaceSize+frame.MaxHandshake)
	if _, err := io.ReadFull(h.net, whole); err != nil {
		return nil, err
	}
	p, err := frame.ParsePreface(whole)
	if err != nil {
		return nil, err
	}
	whole = whole[:frame.PrefaceSize+int(p.Length)]
	if _, err := io.ReadFull(h.net, whole[frame.PrefaceSize:]); err != nil {
		return nil, err
	}
	switch p.Step {
	case want:
		return whole, nil
	case frame.StepRefusal:
		if r, err := frame.ParseRefusal(whole[frame.PrefaceSize:]); err == nil {
			return nil, fmt.Errorf("%w by the other end: %.255q", ErrRefused, r.Reason)
		}
	}
	return nil, fmt.Errorf("%w: the other end sent step %#x, want %#x", ErrRefused, p.Step, want)
}

// refuse sends the dialer a Refusal with the reason, and returns it as an ErrRefused.
func (h *shake) refuse(reason error) error {
	_ = h.send(frame.Refusal{Reason: reason.Error()}.Append(nil))
	return fmt.Errorf("%w: %w", ErrRefused, reason)
}

var (
	errSecret  = errors.New("the secrets of the two ends are not the same")
	errVersion = errors.New("there is no version of the protocol that both ends speak")
	errMyself  = errors.New("the name is that of this node")
)

// challenge is the acceptor's side of the handshake until the dialer has proven itself.
func (h *shake) challenge() (hello frame.Hello, proof frame.Proof, err error) {
	if hello, err = h.hear(); err != nil {
		return hello, proof, err
	}
	if err := h.admissible(hello); err != nil {
		return hello, proof, h.refuse(err)
	}
	c := frame.Challenge{Version: min(frame.Version, hello.Newest), Start: h.e.o.Start, Name: h.e.o.Name, Nonce: nonce()}
	if err := h.send(c.Append(nil)); err != nil {
		return hello, proof, err
	}
	whole, err := h.receive(frame.StepProof)
	if err != nil {
		return hello, proof, err
	}
	if proof, err = frame.ParseProof(whole[frame.PrefaceSize:]); err != nil {
		return hello, proof, err
	}
	if !h.seen.proven(dialer, proof.Signed(), proof.MAC) {
		return hello, proof, h.refuse(errSecret)
	}
	h.seen.Write(whole)
	return hello, proof, nil
}

// hear reads the dialer's Hello into the transcript.
func (h *shake) hear() (frame.Hello, error) {
	whole, err := h.receive(frame.StepHello)
	if err != nil {
		return frame.Hello{}, err
	}
	h.seen.Write(whole)
	return frame.ParseHello(whole[frame.PrefaceSize:])
}

// admissible returns why a Hello is refused, before anything is proven: its names, its versions, or
// the certificate of its sender.
func (h *shake) admissible(hello frame.Hello) error {
	if err := validName(hello.Name); err != nil {
		return err
	}
	switch {
	case hello.Oldest > frame.Version || hello.Newest < frame.MinVersion:
		return errVersion
	case hello.To != h.e.o.Name:
		return fmt.Errorf("this node is not %.255q", hello.To)
	case hello.Name == h.e.o.Name:
		return errMyself
	}
	return certified(h.state, hello.Name)
}

// welcome sends the acceptor's last message.
func (h *shake) welcome(v frame.Admission, t frame.Terms) error {
	w := frame.Welcome{Admission: v, Terms: t}
	w.MAC = h.seen.mac(acceptor, w.Signed())
	return h.send(w.Append(nil))
}

// call is the dialer's side of the handshake.
func (h *shake) call(to string, t frame.Terms) (c frame.Challenge, w frame.Welcome, err error) {
	if err := certified(h.state, to); err != nil {
		return c, w, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	hello := frame.Hello{
		Oldest: frame.MinVersion, Newest: frame.Version,
		Start: h.e.o.Start, Nonce: nonce(), Name: h.e.o.Name, To: to,
	}
	if err := h.send(hello.Append(nil)); err != nil {
		return c, w, err
	}
	if c, err = h.challenged(to); err != nil {
		return c, w, err
	}
	proof := frame.Proof{Terms: t}
	proof.MAC = h.seen.mac(dialer, proof.Signed())
	if err := h.send(proof.Append(nil)); err != nil {
		return c, w, err
	}
	whole, err := h.receive(frame.StepWelcome)
	if err != nil {
		return c, w, err
	}
	if w, err = frame.ParseWelcome(whole[frame.PrefaceSize:]); err != nil {
		return c, w, err
	}
	if !h.seen.proven(acceptor, w.Signed(), w.MAC) {
		return c, w, fmt.Errorf("%w: %w", ErrRefused, errSecret)
	}
	return c, w, nil
}

// challenged reads the acceptor's Challenge.
func (h *shake) challenged(to string) (frame.Challenge, error) {
	whole, err := h.receive(frame.StepChallenge)
	if err != nil {
		return frame.Challenge{}, err
	}
	h.seen.Write(whole)
	c, err := frame.ParseChallenge(whole[frame.PrefaceSize:])
	switch {
	case err != nil:
		return c, err
	case c.Version < frame.MinVersion || c.Version > frame.Version:
		return c, fmt.Errorf("%w: %w", ErrRefused, errVersion)
	case c.Name != to:
		return c, fmt.Errorf("%w: the other end is %.255q, want %q", ErrRefused, c.Name, to)
	}
	return c, nil
}

func nonce() (n [frame.NonceSize]byte) {
	_, _ = rand.Read(n[:]) // it never fails
	return n
}
