package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/readfile"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

// Variables that hold the password of a user, or the name of a file with it.
const (
	passwordVariable     = "MAINSTEM_KAFKA_PASSWORD"
	passwordFileVariable = "MAINSTEM_KAFKA_PASSWORD_FILE"
)

func (m *Main) kafka() *cobra.Command {
	c := &cobra.Command{
		Use:   "kafka",
		Short: "What Kafka clients find in a log",
		RunE:  group,
	}
	users := &cobra.Command{
		Use:   "user",
		Short: "Users that Kafka clients authenticate as",
		Long: `Users that Kafka clients authenticate as, if the server demands that (serve
--kafka-sasl). They are in the log; their passwords are not, only what SCRAM makes of
them. A change holds for the next client that connects, also while a server runs.`,
		RunE: group,
	}
	users.AddCommand(m.kafkaUserSet(), m.kafkaUserDelete(), m.kafkaUserList())
	c.AddCommand(users)
	return c
}

func (m *Main) kafkaUserSet() *cobra.Command {
	var passwordFile string
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Create a user, or give it another password",
		Long: `Create a user, or give it another password. The password is the content of
--password-file or of $MAINSTEM_KAFKA_PASSWORD_FILE, else $MAINSTEM_KAFKA_PASSWORD.`,
		Example: "  mainstem kafka user set ada --password-file password.txt",
		Args:    args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			password, err := m.kafkaPassword(passwordFile)
			if err != nil {
				return usageError{cmd, err}
			}
			return m.withLog(cmd, writing, func(ctx context.Context, log mainstem.Log) error {
				users := kafka.NewUserStore(log)
				if err := users.Set(ctx, a[0], password); err != nil {
					return err
				}
				return m.printUsers(ctx, log, a[0])
			})
		},
	}
	cmd.Flags().StringVar(&passwordFile, "password-file", "", "`file` that holds the user's password")
	return cmd
}

// kafkaPassword reads the password from where others do not see it: not from a flag,
// which the list of processes would show.
func (m *Main) kafkaPassword(file string) (string, error) {
	if file := first(file, m.variable(passwordFileVariable)); file != "" {
		b, err := readfile.All(file, readfile.Secret)
		if err != nil {
			return "", fmt.Errorf("password file: %w", err)
		}
		if p := strings.TrimRight(string(b), "\r\n"); p != "" {
			return p, nil
		}
		return "", fmt.Errorf("the password file %s is empty", file)
	}
	if p := m.variable(passwordVariable); p != "" {
		return p, nil
	}
	return "", fmt.Errorf("a user needs a password: name a file with --password-file, or set %s", passwordVariable)
}

func (m *Main) kafkaUserDelete() *cobra.Command {
	return &cobra.Command{
		Use:     "delete NAME",
		Short:   "Remove a user",
		Example: "  mainstem kafka user delete ada",
		Args:    args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withLog(cmd, reading, func(ctx context.Context, log mainstem.Log) error {
				if err := kafka.NewUserStore(log).Delete(ctx, a[0]); err != nil {
					return err
				}
				if m.flags.json {
					return m.object(new(fields).text("user", a[0]).add("deleted", true))
				}
				return nil
			})
		},
	}
}

func (m *Main) kafkaUserList() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List users by name",
		Example: "  mainstem kafka user list --json",
		Args:    args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return m.withLog(cmd, reading, func(ctx context.Context, log mainstem.Log) error {
				return m.printUsers(ctx, log, "")
			})
		},
	}
}

// printUsers writes users and how they can authenticate: all, or the one called name.
func (m *Main) printUsers(ctx context.Context, log mainstem.Log, name string) error {
	all, err := kafka.NewUserStore(log).All(ctx)
	if err != nil {
		return err
	}
	for _, u := range all {
		if name != "" && u.Name != name {
			continue
		}
		if m.flags.json {
			err = m.object(new(fields).text("user", u.Name).add("mechanisms", u.Mechanisms))
		} else {
			err = m.line(printable([]byte(u.Name)), strings.Join(u.Mechanisms, ","))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
