package main

import (
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdSend sends a text as one datagram, or as a line of a connection: send udp|tcp ADDRESS TEXT.
func cmdSend(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: send udp|tcp ADDRESS TEXT")
	}
	text := args[2]
	if args[0] == "tcp" {
		text += "\n"
	}
	conn, err := net.Dial(args[0], args[1])
	ts.Check(err)
	_, err = io.WriteString(conn, text)
	ts.Check(err)
	ts.Check(conn.Close())
}

// cmdPost posts a file of JSON and shows the answer: post STATUS URL FILE [HEADER VALUE].
func cmdPost(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 && len(args) != 5 {
		ts.Fatalf("usage: post STATUS URL FILE [HEADER VALUE]")
	}
	req, err := http.NewRequest(http.MethodPost, args[1], strings.NewReader(ts.ReadFile(args[2])))
	ts.Check(err)
	req.Header.Set("Content-Type", "application/json")
	if len(args) == 5 {
		req.Header.Set(args[3], args[4])
	}
	showAnswer(ts, req, args[0])
}
