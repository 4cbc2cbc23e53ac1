package clustertest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A wire is a child in a network namespace that carries IP packets between a TUN
// device there and its standard input and output, each behind its length in two bytes.

const maxPacket = 1 << 16

func runWire(device string, in io.Reader, out io.Writer) error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("/dev/net/tun: %w", err)
	}
	ifr, err := unix.NewIfreq(device)
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI) // packets without Ethernet or other headers
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
		return fmt.Errorf("TUNSETIFF %s: %w", device, err)
	}
	ended := make(chan error, 2)
	go func() { ended <- readDevice(fd, out) }()
	go func() {
		ended <- readPackets(in, func(p []byte) { _, _ = unix.Write(fd, p) }) // a device that is down takes none
	}()
	return <-ended
}

// readDevice writes what the device sends to out, until one of them is gone.
func readDevice(fd int, out io.Writer) error {
	packet := make([]byte, maxPacket+2)
	for {
		n, err := unix.Read(fd, packet[2:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil
		}
		binary.BigEndian.PutUint16(packet, uint16(n))
		if _, err := out.Write(packet[:2+n]); err != nil {
			return nil
		}
	}
}

// readPackets calls f for every packet, which is valid until f returns.
func readPackets(in io.Reader, f func([]byte)) error {
	r := bufio.NewReaderSize(in, maxPacket)
	packet := make([]byte, maxPacket)
	for {
		var head [2]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return nil
		}
		p := packet[:binary.BigEndian.Uint16(head[:])]
		if _, err := io.ReadFull(r, p); err != nil {
			return nil
		}
		f(p)
	}
}

// network connects namespaces by a switch that loses and delays packets.
type network struct {
	t     *testing.T
	ports map[byte]*port // by the last byte of the address
	wg    sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	loss    float64    // the share of packets that get lost
	delay   time.Duration
	jitter  time.Duration
	cut     map[byte]bool // hosts that nothing reaches or leaves
	closed  bool
	dropped int
	carried int
}

// port is the switch's end of a namespace.
type port struct {
	namespace string
	cmd       *exec.Cmd
	mu        sync.Mutex
	in        io.Writer
}

const device = "wire0"

func run(t *testing.T, words ...string) {
	t.Helper()
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", words, err, out)
	}
}

// address returns the address of a host: 10.77.0.HOST.
func address(host byte) string { return fmt.Sprintf("10.77.0.%d", host) }

// newNetwork makes as many namespaces, with hosts from 1.
func newNetwork(t *testing.T, hosts int) *network {
	t.Helper()
	n := &network{t: t, ports: make(map[byte]*port), cut: make(map[byte]bool)}
	t.Cleanup(n.close)
	for host := byte(1); host <= byte(hosts); host++ {
		p := &port{namespace: fmt.Sprintf("clustertest-%d-%d", os.Getpid(), host)}
		run(t, "ip", "netns", "add", p.namespace)
		t.Cleanup(func() { run(t, "ip", "netns", "del", p.namespace) })
		run(t, "ip", "-n", p.namespace, "link", "set", "lo", "up")
		run(t, "ip", "-n", p.namespace, "tuntap", "add", "dev", device, "mode", "tun")
		run(t, "ip", "-n", p.namespace, "addr", "add", address(host)+"/24", "dev", device)
		p.cmd = exec.Command("ip", "netns", "exec", p.namespace, self(t))
		p.cmd.Env = append(os.Environ(), childVariable+"=wire "+device)
		p.cmd.Stderr = os.Stderr
		var err error
		if p.in, err = p.cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		out, err := p.cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
		n.ports[host] = p
		n.wg.Go(func() { _ = readPackets(out, n.carry) })
		run(t, "ip", "-n", p.namespace, "link", "set", device, "up")
	}
	return n
}

// carry sends a packet on to its host, unless it is lost.
func (n *network) carry(packet []byte) {
	if len(packet) < 20 || packet[0]>>4 != 4 {
		return
	}
	from, to := packet[15], packet[19]
	n.mu.Lock()
	p := n.ports[to]
	lost := p == nil || n.closed || n.cut[from] || n.cut[to] || rand.Float64() < n.loss
	wait := n.delay
	if n.jitter > 0 {
		wait += rand.N(n.jitter) // a later packet may come first
	}
	if lost {
		n.dropped++
	} else {
		n.carried++
	}
	n.mu.Unlock()
	if lost {
		return
	}
	framed := binary.BigEndian.AppendUint16(make([]byte, 0, len(packet)+2), uint16(len(packet)))
	framed = append(framed, packet...)
	if wait == 0 {
		p.write(framed)
		return
	}
	time.AfterFunc(wait, func() { p.write(framed) })
}

// packets returns how many packets were carried and dropped so far.
func (n *network) packets() (carried, dropped int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.carried, n.dropped
}

func (p *port) write(framed []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.in.Write(framed) // the wire may have ended
}

// bad makes the network lose and delay packets.
func (n *network) bad(loss float64, delay, jitter time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loss, n.delay, n.jitter = loss, delay, jitter
}

// part cuts a host off, or connects it again.
func (n *network) part(host byte, off bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[host] = off
}

// link takes the device of a host down, or up again.
func (n *network) link(host byte, up string) {
	run(n.t, "ip", "-n", n.ports[host].namespace, "link", "set", device, up)
}

// close stops the switch. It runs when the wires have ended.
func (n *network) close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.wg.Wait()
}
