package java

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
)

// Agent is a JVM with Java clients of one version. Its methods may be called by any
// goroutine.
type Agent struct {
	cmd    *exec.Cmd
	log    tail
	ended  chan struct{} // closed once no answer comes any more
	writes sync.Mutex    // one request at a time goes to in
	in     io.WriteCloser

	mu struct {
		sync.Mutex
		last    int                 // number of a request or client
		waiting map[int]chan answer // by number of the request; buffered
	}
}

// request is one line to the agent, and answer one from it: see Agent.java.
type request struct {
	ID   int    `json:"id"`
	On   int    `json:"on"`
	Op   string `json:"op"`
	Args any    `json:"args,omitempty"`
}

type answer struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  string          `json:"error"`
}

// StartAgent starts the JVM. It ends with Close.
func StartAgent(ctx context.Context, version string) (*Agent, error) {
	cmd, err := command(ctx, version, "error", "mainstem.Agent")
	if err != nil {
		return nil, err
	}
	a := &Agent{cmd: cmd, ended: make(chan struct{})}
	a.mu.waiting = map[int]chan answer{}
	cmd.Stderr = &a.log
	if a.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start java: %w", err)
	}
	go a.receive(out) // ends with the process, which Close waits for
	return a, nil
}

// receive passes answers on until the process ends.
func (a *Agent) receive(out io.Reader) {
	defer close(a.ended)
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var got answer
		if err := json.Unmarshal(line, &got); err != nil {
			fmt.Fprintf(&a.log, "no answer: %s\n", line)
			continue
		}
		a.mu.Lock()
		c := a.mu.waiting[got.ID]
		delete(a.mu.waiting, got.ID)
		a.mu.Unlock()
		if c != nil {
			c <- got
		}
	}
}

// next returns a number that was not used before.
func (a *Agent) next() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.last++
	return a.mu.last
}

// open opens a client. args name its kind and hold its configuration.
func (a *Agent) open(ctx context.Context, args any) (*client, error) {
	c := &client{agent: a, number: a.next(), life: context.WithoutCancel(ctx)}
	return c, c.call(ctx, "open", args, nil)
}

// Close ends the JVM and all clients in it.
func (a *Agent) Close() error {
	err := a.in.Close()
	<-a.ended
	return errors.Join(err, a.cmd.Wait())
}

// client is one client in the agent.
type client struct {
	agent  *Agent
	number int
	life   context.Context // of calls whose caller has none
}

// call does one thing with the client, and decodes what comes of it into result
// unless that is nil. If ctx ends first, the call goes on and its answer is dropped.
func (c *client) call(ctx context.Context, op string, args, result any) error {
	a := c.agent
	r := request{ID: a.next(), On: c.number, Op: op, Args: args}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	wait := make(chan answer, 1)
	a.mu.Lock()
	a.mu.waiting[r.ID] = wait
	a.mu.Unlock()
	a.writes.Lock()
	_, err = a.in.Write(append(line, '\n'))
	a.writes.Unlock()
	if err != nil {
		return fmt.Errorf("java %s: %w\n%s", op, err, a.log.String())
	}
	select {
	case got := <-wait:
		if got.Error != "" {
			return fmt.Errorf("java %s: %s", op, got.Error)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(got.Result, result)
	case <-a.ended:
		return fmt.Errorf("java %s: the JVM ended\n%s", op, a.log.String())
	case <-ctx.Done():
		return fmt.Errorf("java %s: %w", op, ctx.Err())
	}
}

// close closes the client.
func (c *client) close() error { return c.call(c.life, "close", nil, nil) }

// tail is the end of what a process wrote to standard error.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 16 << 10 // bytes

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-tailSize):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
