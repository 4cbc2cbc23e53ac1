package kafka

import (
	"context"

	"github.com/mainstemdev/mainstem"
)

// UserStore is the users of a log, for a program that does not serve it to Kafka clients: for
// example to create the first user before clients can authenticate. The methods may be called
// from many goroutines, also while a server serves the log.
type UserStore struct{ s *Server }

// NewUserStore returns the users of log, which stays the caller's.
func NewUserStore(log mainstem.Log) *UserStore { return &UserStore{s: &Server{log: log}} }

// Set is [Server.SetUser].
func (u *UserStore) Set(ctx context.Context, name, password string) error {
	return u.s.SetUser(ctx, name, password)
}

// Delete is [Server.DeleteUser].
func (u *UserStore) Delete(ctx context.Context, name string) error { return u.s.DeleteUser(ctx, name) }

// All is [Server.Users].
func (u *UserStore) All(ctx context.Context) ([]User, error) { return u.s.Users(ctx) }
