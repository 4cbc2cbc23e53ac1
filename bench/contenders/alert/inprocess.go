package alert

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/mainstemdev/mainstem"
	view "github.com/mainstemdev/mainstem/alert"

	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/alert"
)

// inProcess are object servers in the process that asks them.
func inProcess() []alert.Factory {
	var all []alert.Factory
	for _, e := range embedded() {
		all = append(all, alert.Factory{
			Name: e.Name, Durability: e.Durability, Transport: suite.InProcess, Note: "two object servers in the same process, each with a log of its own",
			Open: func(ctx context.Context, env *suite.Env, dir string) (alert.Server, error) {
				var s local
				for i := range alert.Clusters {
					one, err := openOne(ctx, e, env, filepath.Join(dir, strconv.Itoa(i)))
					if err != nil {
						return nil, errors.Join(err, s.Close())
					}
					s = append(s, one)
				}
				return s, nil
			},
		})
	}
	return all
}

// objectServer is an object server with the log that it is on.
type objectServer struct {
	*view.Server
	log mainstem.Log
}

func openOne(ctx context.Context, e engines.Engine, env *suite.Env, dir string) (*objectServer, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	log, err := e.Open(ctx, env, dir)
	if err != nil {
		return nil, err
	}
	server, err := view.Open(ctx, log, nil)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return &objectServer{server, log}, nil
}

// Close closes the server and then its log.
func (s *objectServer) Close() error { return errors.Join(s.Server.Close(), s.log.Close()) }

type local []*objectServer

func (l local) Ask(ctx context.Context, statement string) ([]alert.Answer, error) {
	return everywhere(len(l), func(i int) (alert.Answer, error) { return l[i].ask(ctx, statement) })
}

// everywhere asks all clusters at the same time.
func everywhere(n int, ask func(i int) (alert.Answer, error)) ([]alert.Answer, error) {
	answers, failed := make([]alert.Answer, n), make([]error, n)
	var others sync.WaitGroup
	for i := 1; i < n; i++ {
		others.Go(func() { answers[i], failed[i] = ask(i) })
	}
	answers[0], failed[0] = ask(0)
	others.Wait()
	return answers, errors.Join(failed...)
}

func (s *objectServer) ask(ctx context.Context, statement string) (alert.Answer, error) {
	if !strings.HasPrefix(statement, "SELECT") {
		r, err := s.Exec(ctx, statement)
		return alert.Answer{Affected: int(r.Affected)}, err
	}
	rows, err := s.Query(ctx, statement)
	if err != nil {
		return alert.Answer{}, err
	}
	var a alert.Answer
	for row, err := range rows.All() {
		if err != nil {
			return a, err
		}
		m := make(map[string]any, row.Len())
		for name, v := range row.All() {
			m[name] = v.Any()
		}
		a.Rows = append(a.Rows, m)
	}
	return a, nil
}

func (l local) Close() error {
	var err error
	for _, s := range l {
		err = errors.Join(err, s.Close())
	}
	return err
}
