package session_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/internal/session"
	"go.uber.org/goleak"
)

var rewrite = flag.Bool("rewrite", false, "write the golden file anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The bytes of every type of frame.
func TestFramesAreGolden(t *testing.T) {
	call := session.AppendCall(nil, session.Call{Method: session.Get, Size: 5, Timeout: 1_500_000})
	again := session.AppendCall(nil, session.Call{Method: session.Commit, Again: true, Size: 5})
	key := session.Key{0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xaf}
	large := session.AppendCall(nil, session.Call{Method: session.Commit, Size: 1 << 20})
	var got strings.Builder
	for _, f := range []struct {
		name  string
		bytes []byte
	}{
		{"hello of a client", session.AppendHello(nil, session.Hello{Version: 1, Windows: session.Windows{Call: 256 << 10, Session: 32 << 20}})},
		{"hello of a server", session.AppendHello(nil, session.Hello{Version: 1, Windows: session.Windows{Call: 64 << 10, Session: 128 << 10}, Calls: 4096})},
		{"hello of a client that resumes", session.AppendHello(nil, session.Hello{Version: 1, Windows: session.Windows{Call: 256 << 10, Session: 32 << 20}, Keyed: true, Key: key})},
		{"a commit that is sent again", session.AppendFrame(nil, session.TypeCall, session.First|session.Last|session.End, 7, again, []byte("hello"))},
		{"a small call", session.AppendFrame(nil, session.TypeCall, session.First|session.Last|session.End, 7, call, []byte("hello"))},
		{"the first piece of a large call", session.AppendFrame(nil, session.TypeCall, session.First, 8, large, []byte("abc"))},
		{"a piece", session.AppendFrame(nil, session.TypeData, 0, 8, []byte("def"))},
		{"the last piece of a request", session.AppendFrame(nil, session.TypeData, session.Last|session.End, 8, []byte("g"))},
		{"a small answer", session.AppendFrame(nil, session.TypeData, session.First|session.Last|session.End, 7, []byte("world"))},
		{"the first piece of a large answer", session.AppendFrame(nil, session.TypeData, session.First, 8, []byte{0, 16, 0, 0}, []byte("abc"))},
		{"the end of a stream", session.AppendFrame(nil, session.TypeData, session.End, 9)},
		{"an error", session.AppendFrame(nil, session.TypeError, 0, 9, []byte{5, 8, 1})},
		{"a cancellation", session.AppendFrame(nil, session.TypeCancel, 0, 10)},
		{"credit for a call", session.AppendCredit(nil, 9, 64<<10)},
		{"credit for the session", session.AppendCredit(nil, 0, 8<<20)},
		{"a ping", session.AppendFrame(nil, session.TypePing, 0, 0)},
		{"a pong", session.AppendFrame(nil, session.TypePong, 0, 0)},
		{"going away", session.AppendFrame(nil, session.TypeGoAway, 0, 0, []byte("the server is stopping"))},
		{"a new token", session.AppendFrame(nil, session.TypeToken, 0, 0, []byte("secret"))},
	} {
		fmt.Fprintf(&got, "%s\n\t%s\n", f.name, hex.EncodeToString(f.bytes))
	}
	const file = "testdata/frames.txt"
	if *rewrite {
		if err := os.WriteFile(file, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("the frames are not those of %s:\n%s", file, got.String())
	}
}

// Every number of a method is one of the protocol file, in its order.
func TestMethodsHaveNames(t *testing.T) {
	if session.Commit.String() != "Commit" || session.Info.String() != "Info" || session.Info != 18 {
		t.Errorf("Commit is %v, Info is %v, %d", session.Commit, session.Info, session.Info)
	}
	for _, m := range []session.Method{0, 19, 255} {
		if m.String() != "unknown" {
			t.Errorf("method %d is called %v", m, m)
		}
	}
}

func TestDecodersRefuse(t *testing.T) {
	whole := session.First | session.Last | session.End
	for name, f := range map[string]func() error{
		"short hello": func() error { _, err := session.ParseHello(make([]byte, 15)); return err },
		"small windows": func() error {
			_, err := session.ParseHello(session.AppendHello(nil, session.Hello{Version: 1})[session.HeaderSize:])
			return err
		},
		"short call": func() error { _, _, err := session.ParseCall(whole, make([]byte, 15)); return err },
		"call longer than it says": func() error {
			_, _, err := session.ParseCall(whole, append(session.AppendCall(nil, session.Call{Size: 1}), 1, 2))
			return err
		},
		"call shorter than it says": func() error {
			_, _, err := session.ParseCall(whole, session.AppendCall(nil, session.Call{Size: 1}))
			return err
		},
		"message without size": func() error { _, _, err := session.ParseData(session.First, []byte{0, 0, 1}); return err },
		"message that is whole in a first piece": func() error {
			_, _, err := session.ParseData(session.First, []byte{0, 0, 0, 1, 9})
			return err
		},
		"huge message": func() error {
			_, _, err := session.ParseData(session.First, []byte{255, 255, 255, 255, 9})
			return err
		},
		"credit": func() error { _, err := session.ParseCredit([]byte{1, 2, 3}); return err },
		"payload": func() error {
			_, err := session.ParseHeader([]byte{255, 255, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0})
			return err
		},
		"piece of nothing": func() error { _, _, err := new(session.Parts).Add(0, []byte("x")); return err },
		"piece beyond the end": func() error {
			p := new(session.Parts)
			if _, _, err := p.Add(session.First, []byte{0, 0, 0, 3, 'a'}); err != nil {
				return nil
			}
			_, _, err := p.Add(session.Last, []byte("bcd"))
			return err
		},
		"message within a message": func() error {
			p := new(session.Parts)
			if _, _, err := p.Add(session.First, []byte{0, 0, 0, 3, 'a'}); err != nil {
				return nil
			}
			_, _, err := p.Add(whole, []byte("bcd"))
			return err
		},
		"message that ends early": func() error {
			p := new(session.Parts)
			if _, _, err := p.Add(session.First, []byte{0, 0, 0, 3, 'a'}); err != nil {
				return nil
			}
			_, _, err := p.Add(session.Last, []byte("b"))
			return err
		},
	} {
		if err := f(); !errors.Is(err, session.ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A request has memory for what has come of it until memory for all of it is reserved.
func TestLeanParts(t *testing.T) {
	const size = 200 << 10
	p := session.Parts{Lean: true}
	add := func(f session.Flags, n int) {
		t.Helper()
		if _, cost, err := p.Add(f, make([]byte, n)); err != nil || cost != n {
			t.Fatalf("cost %d of %d, %v", cost, n, err)
		}
	}
	if _, _, err := p.AddCall(session.First, session.Call{Size: size}, []byte("x")); err != nil || cap(p.Body) > 1<<10 {
		t.Fatalf("1 byte takes %d, %v", cap(p.Body), err)
	}
	if add(0, 30<<10); cap(p.Body) > 60<<10 {
		t.Errorf("30 KiB take %d", cap(p.Body))
	}
	p.Lean = false
	if add(0, 30<<10); cap(p.Body) != size {
		t.Errorf("there is room for %d bytes of %d", cap(p.Body), size)
	}
	if add(session.Last, size-60<<10-1); p.Open() || len(p.Body) != size {
		t.Errorf("open %v, %d bytes of %d", p.Open(), len(p.Body), size)
	}
}

// Whatever comes, the pieces put together are no more than the message says, and whole when
// it is.
func FuzzParts(f *testing.F) {
	f.Add([]byte{1, 5, 0, 0, 0, 3, 'a', 2, 2, 'b', 'c'})
	f.Add([]byte{7, 3, 'x', 'y', 'z', 3, 1, 'q'})
	f.Fuzz(func(t *testing.T, data []byte) {
		p := new(session.Parts)
		first := true
		for len(data) >= 2 {
			flags, n := session.Flags(data[0]), min(int(data[1]), len(data)-2)
			payload := data[2 : 2+n]
			data = data[2+n:]
			whole, cost, err := p.Add(flags, payload)
			if err != nil {
				if !errors.Is(err, session.ErrProtocol) {
					t.Fatal(err)
				}
				return
			}
			if cost < 0 || cost > len(payload) || whole == p.Open() {
				t.Fatalf("cost %d of %d, whole %v, open %v", cost, len(payload), whole, p.Open())
			}
			if whole && flags&session.First != 0 && !bytes.Equal(p.Body, payload) {
				t.Fatalf("%q is %q", payload, p.Body)
			}
			if cost == 0 && len(payload) > 0 && !first && flags&session.First != 0 && flags&session.Last != 0 {
				t.Fatal("a later message was free")
			}
			first = false
		}
	})
}

// What the decoders take they encode again as it was.
func FuzzHeads(f *testing.F) {
	f.Add(session.AppendHello(nil, session.Hello{Version: 1, Windows: session.Windows{Call: 1 << 16, Session: 1 << 20}})[session.HeaderSize:])
	f.Add(append(session.AppendCall(nil, session.Call{Method: 2, Size: 3, Timeout: 9}), 1, 2, 3))
	f.Fuzz(func(t *testing.T, p []byte) {
		if h, err := session.ParseHello(p); err == nil {
			again, err := session.ParseHello(session.AppendHello(nil, h)[session.HeaderSize:])
			if err != nil || again != h {
				t.Errorf("%+v is %+v, %v", h, again, err)
			}
		}
		for _, flags := range []session.Flags{0, session.Last} {
			c, piece, err := session.ParseCall(flags, p)
			if err != nil {
				continue
			}
			again, rest, err := session.ParseCall(flags, append(session.AppendCall(nil, c), piece...))
			if err != nil || again != c || !bytes.Equal(rest, piece) {
				t.Errorf("%+v is %+v, %v", c, again, err)
			}
		}
		if n, err := session.ParseCredit(p); err == nil && n < 0 {
			t.Errorf("credit %d", n)
		}
	})
}
