package alertserver

import (
	"net"
	"testing"

	"github.com/mainstemdev/mainstem/alert/ingest"
	"github.com/mainstemdev/mainstem/server"
)

// TestStopBeforeListening: a server that is stopped before the goroutine of a socket has
// run has not failed.
func TestStopBeforeListening(t *testing.T) {
	p := &ingestListeners{alerts: New()}
	p.alerts.host = &server.Host{Failed: func(err error) { t.Error(err) }}
	r, err := ingest.OpenSyslog(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.listen("syslog over TCP", func() error { return r.ServeTCP(tcp) })
	p.listen("syslog over UDP", func() error { return r.ServeUDP(udp) })
	p.listening.Wait()
	if _, err := tcp.Accept(); err == nil {
		t.Error("the socket is still open")
	}
}
