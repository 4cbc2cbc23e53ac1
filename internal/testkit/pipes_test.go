package testkit

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
)

func TestPipes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPipes()
		go func() {
			c, err := p.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(c, "hello")
			_ = c.Close()
		}()
		c, err := p.Dial()
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(c); string(b) != "hello" || err != nil {
			t.Errorf("read %q: %v", b, err)
		}
		if err := errors.Join(c.Close(), p.Close(), p.Close()); err != nil {
			t.Error(err)
		}
		if _, err := p.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept of a closed listener: %v", err)
		}
		if _, err := p.Dial(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Dial of a closed listener: %v", err)
		}
	})
}
