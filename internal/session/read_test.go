package session_test

import (
	"bytes"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/mainstemdev/mainstem/internal/session"
)

// A reader returns the frames that were sent, however many bytes came before it was made
// and however the rest is cut into reads.
func TestReaderPutsFramesTogether(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		var stream []byte
		var want [][]byte
		for range 20 {
			size := []int{0, 1, 100, 1000, 1024 - session.HeaderSize, 5000, session.MaxPayload}[rnd.IntN(7)]
			payload := bytes.Repeat([]byte{byte(len(want))}, size)
			stream = session.AppendFrame(stream, session.TypeData, 0, 1, payload)
			want = append(want, payload)
		}
		x, y := net.Pipe()
		c := session.New(x, windows, nil)
		came := rnd.IntN(3000)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for rest := stream[came:]; len(rest) > 0; {
				n := min(len(rest), 1+rnd.IntN(9000))
				if _, err := y.Write(rest[:n]); err != nil {
					return
				}
				rest = rest[n:]
			}
		}()
		in := c.NewReader(stream[:came:came])
		for i, p := range want {
			_, got, err := in.Next()
			if err != nil || !bytes.Equal(got, p) {
				t.Fatalf("round %d, %d bytes before: frame %d has %d bytes, want %d: %v", round, came, i, len(got), len(p), err)
			}
		}
		<-sent
		c.Close(session.ErrClosed)
		c.Wait()
		_ = y.Close()
	}
}
