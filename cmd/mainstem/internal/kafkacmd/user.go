// Package kafkacmd is the commands of mainstem kafka, which keep the users and the consumer groups
// of Kafka clients.
//
//	mainstem kafka user set ada --password-file password.txt
//	mainstem kafka group reset billing --topic orders --to-earliest
package kafkacmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

// commands has a method for each command of the group, and what these share.
type commands struct{ *cli.Main }

// New returns mainstem kafka.
func New(program *cli.Main) *cobra.Command {
	m := commands{program}
	c := &cobra.Command{
		Use:   "kafka",
		Short: "What Kafka clients find in a log",
		RunE:  cli.Group,
	}
	users := &cobra.Command{
		Use:   "user",
		Short: "Users that Kafka clients authenticate as",
		Long: `Users that Kafka clients authenticate as, if the server demands that (serve
--kafka-sasl). They are in the log; their passwords are not, only what SCRAM makes of
them. A change holds for the next client that connects, also while a server runs.`,
		RunE: cli.Group,
	}
	users.AddCommand(m.newSet(), m.newDelete(), m.newList())
	c.AddCommand(users, m.newGroup())
	return c
}

func (m commands) newSet() *cobra.Command {
	var passwordFile string
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Create a user, or give it another password",
		Long: `Create a user, or give it another password. The password is the content of
--password-file or of $MAINSTEM_KAFKA_PASSWORD_FILE, else $MAINSTEM_KAFKA_PASSWORD.`,
		Example: "  mainstem kafka user set ada --password-file password.txt",
		Args:    cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			password, err := m.Password(passwordFile, cli.KafkaPassword)
			if err == nil && password == "" {
				err = cli.NoPassword(cli.KafkaPassword)
			}
			if err != nil {
				return cli.WrongUsage(cmd, err)
			}
			return m.WithLog(cmd, cli.Writing, func(ctx context.Context, log mainstem.Log) error {
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

func (m commands) newDelete() *cobra.Command {
	return &cobra.Command{
		Use:     "delete NAME",
		Short:   "Remove a user",
		Example: "  mainstem kafka user delete ada",
		Args:    cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.WithLog(cmd, cli.Reading, func(ctx context.Context, log mainstem.Log) error {
				if err := kafka.NewUserStore(log).Delete(ctx, a[0]); err != nil {
					return err
				}
				return m.Deleted(new(cli.Fields).Text("user", a[0]))
			})
		},
	}
}

func (m commands) newList() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List users by name",
		Example: "  mainstem kafka user list --json",
		Args:    cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return m.WithLog(cmd, cli.Reading, func(ctx context.Context, log mainstem.Log) error {
				return m.printUsers(ctx, log, "")
			})
		},
	}
}

// printUsers writes users and how they can authenticate: all, or the one called name.
func (m commands) printUsers(ctx context.Context, log mainstem.Log, name string) error {
	all, err := kafka.NewUserStore(log).All(ctx)
	if err != nil {
		return err
	}
	for _, u := range all {
		if name != "" && u.Name != name {
			continue
		}
		if m.Flags.JSON {
			err = m.Object(new(cli.Fields).Text("user", u.Name).Add("mechanisms", u.Mechanisms))
		} else {
			err = m.Line(cli.Printable(u.Name), strings.Join(u.Mechanisms, ","))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
