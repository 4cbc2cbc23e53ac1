package remotelog_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/mainstemdev/mainstem/engine/remotelog"
)

// benchServer is set in the process that serves BenchmarkBetweenProcesses; benchRedis may hold
// the address of a Redis server to compare with.
const (
	benchServer = "MAINSTEM_BENCH_SERVER"
	benchRedis  = "MAINSTEM_BENCH_REDIS"
)

// Calls of a client to a server in another process, beside an echo of as many bytes between the
// same two, and beside GET on the socket of a Redis server. What the operating system takes to
// wake the other process is most of each, and depends on which processor it chooses: run it
// under taskset, too.
func BenchmarkBetweenProcesses(b *testing.B) {
	if os.Getenv(benchServer) != "" {
		beServer(b)
		return
	}
	url, address := startServer(b)
	log := open(b, url, &remotelog.Options{Transport: remotelog.Sessions})
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	ping := &pingPong{conn, make([]byte, getRequest), make([]byte, getAnswer)}
	var keys [][]byte
	for i := range 100 {
		keys = append(keys, fmt.Appendf(nil, "key-%04d", i))
	}
	names := []string{"echo", "get", "put", "get-many-100"}
	works := []func() error{
		ping.once, get(log), commit(log, 61),
		func() error { return all(log.GetMany(context.Background(), "s", keys), len(keys)) },
	}
	if address := os.Getenv(benchRedis); address != "" {
		names, works = append(names, "redis-get"), append(works, redisGet(b, address))
	}
	inTurn(b, names, works)
}

// startServer starts a process that serves a log and an echo until the benchmark ends.
func startServer(b *testing.B) (url, address string) {
	b.Helper()
	lines, end := startBenchmark(b, "BenchmarkBetweenProcesses", benchServer+"=1")
	b.Cleanup(end)
	for lines.Scan() {
		if _, err := fmt.Sscanf(lines.Text(), "serves %s %s", &url, &address); err == nil {
			return url, address
		}
	}
	b.Fatal("the server did not start")
	return "", ""
}

// startBenchmark starts a process that runs a benchmark once with a variable of its environment
// set. It returns the lines that the process prints, and how to end it: its standard input ends.
func startBenchmark(b *testing.B, name, variable string) (lines *bufio.Scanner, end func()) {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$", "-test.bench=^"+name+"$", "-test.benchtime=1x")
	cmd.Env, cmd.Stderr = append(os.Environ(), variable), os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	return bufio.NewScanner(stdout), func() {
		_ = stdin.Close()
		_, _ = io.Copy(io.Discard, stdout)
		_ = cmd.Wait()
	}
}

// beServer serves until standard input ends.
func beServer(b *testing.B) {
	s := serve(b, behind(b), nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		echo(conn, getAnswer)
	}()
	_, _ = fmt.Fprintf(os.Stdout, "\nserves %s %s\n", s.URL, l.Addr()) // on a line of its own: the benchmark's name stands before the first
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// redisGet returns a GET of a value of 61 bytes, which has been set, on a connection of its own.
func redisGet(b *testing.B, address string) func() error {
	b.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	exchange := func(request string, answer []byte) error {
		if _, err := io.WriteString(conn, request); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, answer)
		return err
	}
	if err := exchange(fmt.Sprintf("*3\r\n$3\r\nSET\r\n$14\r\nmainstem-bench\r\n$61\r\n%061d\r\n", 0), make([]byte, len("+OK\r\n"))); err != nil {
		b.Fatal(err)
	}
	answer := make([]byte, len("$61\r\n")+61+len("\r\n"))
	return func() error { return exchange("*2\r\n$3\r\nGET\r\n$14\r\nmainstem-bench\r\n", answer) }
}
