package kafka_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

// failing is a listener whose first calls of Accept fail.
type failing struct {
	*pipes
	errs []error // of the next calls; belongs to the goroutine of Serve
}

func (f *failing) Accept() (net.Conn, error) {
	if len(f.errs) == 0 {
		return f.pipes.Accept()
	}
	err := f.errs[0]
	f.errs = f.errs[1:]
	return nil, err
}

func acceptError(err syscall.Errno) error {
	return &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
}

// A listener without files for connections is not given up, and tried ever less often. An
// error that lasts ends Serve.
func TestAcceptIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topics, err := topic.Open(testengines.Memory(t), &topic.Options{Every: -1})
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		s, err := kafka.Open(t.Context(), topics, &kafka.Options{Logger: slog.New(slog.NewTextHandler(&text, nil))})
		if err != nil {
			t.Fatal(err)
		}
		l := &failing{pipes: newPipes()}
		for range 8 {
			l.errs = append(l.errs, acceptError(syscall.EMFILE))
		}
		l.errs = append(l.errs, acceptError(syscall.ECONNABORTED), acceptError(syscall.ECONNRESET), acceptError(syscall.ENFILE), acceptError(syscall.ENOBUFS))
		ended := make(chan error, 1)
		go func() {
			err := s.Serve(l, nil)
			_ = l.Close()
			ended <- err
		}()
		begin := time.Now()
		ask[*kmsg.ApiVersionsResponse](l.dial(t), apiVersions(), 3)
		const pauses = (5+10+20+40+80+160+320+640)*time.Millisecond + 4*time.Second
		if took := time.Since(begin); took != pauses {
			t.Errorf("after %v, want %v", took, pauses)
		}
		if n := strings.Count(text.String(), "kafka connection not accepted"); n != 12 {
			t.Errorf("%d of 12 failures are logged: %s", n, &text)
		}
		last := acceptError(syscall.EINVAL)
		if err := s.Serve(&failing{pipes: newPipes(), errs: []error{last}}, nil); !errors.Is(err, last) {
			t.Errorf("error %v, want %v", err, last)
		}
		endless := &failing{pipes: newPipes()}
		for range 1000 {
			endless.errs = append(endless.errs, acceptError(syscall.EMFILE))
		}
		waits := make(chan error, 1)
		go func() { waits <- s.Serve(endless, nil) }()
		synctest.Wait()
		begin = time.Now()
		if err := errors.Join(s.Shutdown(context.Background()), <-ended, <-waits, topics.Close()); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("the shutdown took %v", took)
		}
	})
}
