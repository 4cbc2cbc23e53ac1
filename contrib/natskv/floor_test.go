package natskv_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
)

// BenchmarkBareSocket runs requests of BenchmarkAgainstKeyValue on a socket, without
// any client library: what is sent was made before, what comes back is not looked at, and no
// goroutine hands anything to another. It is what the server and the system
// take by themselves, and reports the same ratio.
func BenchmarkBareSocket(b *testing.B) {
	r := newRace(b)
	r.put(b, "test-key", []byte("test-value"))
	r.plainPut(b, "test-key", []byte("test-value"))
	s := dialBare(b, r.url)
	b.Run("Set", func(b *testing.B) {
		r.run(b, 1, func(i int) { r.plainPut(b, fmt.Sprintf("key-%d", i), r.small(i)) },
			func(i int) { s.do(b, s.put(fmt.Sprintf("key-%d", i), r.small(i)), 1) })
	})
	get := []byte("PUB $JS.API.DIRECT.GET.KV_ours.$KV.ours.test-key _INBOX.bare.0 0\r\n\r\n")
	b.Run("Get", func(b *testing.B) {
		r.run(b, 1, func(int) { r.plainGet(b, "test-key") }, func(int) { s.do(b, get, 1) })
	})
	b.Run("PutMany100", func(b *testing.B) {
		n := 0
		r.runPer(b, 100, 1, 100, func(i int) { r.plainPut(b, fmt.Sprintf("many-%d", i), r.small(i)) }, func(int) {
			var all []byte
			for range 100 {
				all = append(all, s.put(fmt.Sprintf("many-%d", n), r.small(n))...)
				n++
			}
			s.do(b, all, 100)
		})
	})
	b.Run("SetLarge", func(b *testing.B) {
		r.run(b, 1, func(i int) { r.plainPut(b, fmt.Sprintf("large-%d", i), r.large) },
			func(i int) { s.do(b, s.put(fmt.Sprintf("large-%d", i), r.large), 1) })
	})
	r.plainPut(b, "large", r.large)
	r.put(b, "large", r.large)
	large := []byte("PUB $JS.API.DIRECT.GET.KV_ours.$KV.ours.large _INBOX.bare.0 0\r\n\r\n")
	b.Run("GetLarge", func(b *testing.B) {
		r.run(b, 1, func(int) { r.plainGet(b, "large") }, func(int) { s.do(b, large, 1) })
	})
}

// bare is a connection that speaks as much of the protocol as the benchmark needs.
type bare struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
}

func dialBare(b *testing.B, url string) *bare {
	b.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "nats://"))
	noError(b, err)
	b.Cleanup(func() { conn.Close() })
	s := &bare{conn: conn, in: bufio.NewReaderSize(conn, 32<<10)}
	_, err = fmt.Fprint(conn, `CONNECT {"verbose":false,"headers":true,"no_responders":true}`+"\r\nSUB _INBOX.bare.* 1\r\nPING\r\n")
	noError(b, err)
	for line := ""; !strings.HasPrefix(line, "PONG"); {
		line, err = s.in.ReadString('\n')
		noError(b, err)
	}
	return s
}

// put returns the command that puts a value; it is good until the next.
func (s *bare) put(key string, value []byte) []byte {
	s.out = fmt.Appendf(s.out[:0], "PUB $KV.ours.%s _INBOX.bare.0 %d\r\n", key, len(value))
	s.out = append(append(s.out, value...), "\r\n"...)
	return s.out
}

// do sends commands and reads n replies.
func (s *bare) do(b *testing.B, commands []byte, n int) {
	_, err := s.conn.Write(commands)
	noError(b, err)
	for n > 0 {
		line, err := s.in.ReadSlice('\n')
		noError(b, err)
		line = bytes.TrimSpace(line)
		if string(line) == "PING" {
			_, err = s.conn.Write([]byte("PONG\r\n"))
			noError(b, err)
			continue
		}
		size, err := strconv.Atoi(string(line[bytes.LastIndexByte(line, ' ')+1:]))
		noError(b, err)
		_, err = s.in.Discard(size + len("\r\n"))
		noError(b, err)
		n--
	}
}
