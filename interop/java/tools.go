package java

import (
	"context"

	"github.com/mainstemdev/mainstem/interop/kafka"
)

// OpenAdmin opens an Admin for calls by name.
func OpenAdmin(ctx context.Context, agent *Agent, address string) (*Admin, error) {
	l := library{at: kafka.Endpoint{Address: address}}
	c, err := agent.open(ctx, map[string]any{"kind": "admin", "config": l.config(config{"default.api.timeout.ms": 20_000})})
	return &Admin{c}, err
}

// Admin is Kafka's Admin.
type Admin struct{ c *client }

// Call makes one of the calls of Administration.java and decodes what comes of it.
func (a *Admin) Call(ctx context.Context, name string, args map[string]any, result any) error {
	return a.c.call(ctx, name, args, result)
}

// Close closes it.
func (a *Admin) Close() error { return a.c.close() }

// Tools are Kafka's command line tools, which run in an agent, one at a time.
type Tools struct{ c *client }

// OpenTools needs an agent of Kafka41.
func OpenTools(ctx context.Context, agent *Agent) (*Tools, error) {
	c, err := agent.open(ctx, map[string]any{"kind": "tools"})
	return &Tools{c}, err
}

// Run runs the tool that a class is, and returns the status it ended with and all it
// wrote.
func (t *Tools) Run(ctx context.Context, class, input string, args ...string) (status int, output string, err error) {
	var got struct {
		Status int    `json:"status"`
		Output string `json:"output"`
	}
	err = t.c.call(ctx, "run", map[string]any{"class": class, "input": input, "args": args}, &got)
	return got.Status, got.Output, err
}

// Close closes them.
func (t *Tools) Close() error { return t.c.close() }
