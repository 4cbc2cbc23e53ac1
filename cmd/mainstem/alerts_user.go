package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/alertserver"
)

// usersSetting names the file of users for the server; commands take it too.
const usersSetting = "MAINSTEM_OMNIBUS_USERS"

func (m *Main) alertsUser() *cobra.Command {
	c := &cobra.Command{
		Use:   "user",
		Short: "Users that clients of alert tables authenticate as",
		Long: `Users that clients of alert tables authenticate as, in a file that the server is told
with serve --omnibus-users. The file holds names, roles, and salted hashes of passwords.
A change holds for the next request to a server that runs, at the latest after a second.

A reader may only ask; a writer may insert, change and delete rows; an admin may do
everything, such as altering tables.`,
		RunE: group,
	}
	c.AddCommand(m.alertsUserSet(), m.alertsUserDelete(), m.alertsUserList())
	return c
}

// alertUserFlags are those of the commands about users.
type alertUserFlags struct {
	file, passwordFile, role string
	probe, gateway           bool
}

func (u *alertUserFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&u.file, "file", "", "`file` of the users (default $"+usersSetting+")")
}

// users returns the file that the command line or the environment names.
func (u *alertUserFlags) users(m *Main, cmd *cobra.Command) (*alertserver.UserFile, error) {
	file := first(u.file, m.variable(usersSetting))
	if file == "" {
		return nil, usageError{cmd, fmt.Errorf("name the file of users with --file, or set %s", usersSetting)}
	}
	return alertserver.NewUserFile(file), nil
}

func (m *Main) alertsUserSet() *cobra.Command {
	var u alertUserFlags
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Create a user, or give it another password",
		Long: `Create a user, or give it another password; what is not said about a user who exists
stays. The password is the content of --password-file or of
$MAINSTEM_ALERTS_PASSWORD_FILE, else $MAINSTEM_ALERTS_PASSWORD, else a terminal is asked.`,
		Example: `  mainstem alerts user set ada --file users --role admin
  mainstem alerts user set syslogd --file users --role writer --probe --password-file password.txt`,
		Args: args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			users, err := u.users(m, cmd)
			if err != nil {
				return err
			}
			user, err := users.Get(a[0])
			if errors.Is(err, mainstem.ErrNotFound) {
				user, err = alertserver.User{Name: a[0], Role: "reader"}, nil
			}
			if err != nil {
				return err
			}
			u.apply(cmd, &user)
			password, err := m.newPassword(cmd.Context(), u.passwordFile)
			switch {
			case err != nil && cmd.Context().Err() != nil:
				return err
			case err != nil:
				return usageError{cmd, err}
			}
			if err := users.Set(user, password); err != nil {
				return err
			}
			return m.printAlertUser(&user)
		},
	}
	u.add(cmd)
	f := cmd.Flags()
	f.StringVar(&u.passwordFile, "password-file", "", "`file` that holds the user's password")
	f.StringVar(&u.role, "role", "", "reader, writer or admin (default reader)")
	f.BoolVar(&u.probe, "probe", false, "what the user sends late or twice is left out")
	f.BoolVar(&u.gateway, "gateway", false, "the user's rows come from another server, and keep their Tally and ServerName")
	return cmd
}

// apply changes what the command line says about a user.
func (u *alertUserFlags) apply(cmd *cobra.Command, user *alertserver.User) {
	if u.role != "" {
		user.Role = u.role
	}
	if cmd.Flags().Changed("probe") {
		user.Probe = u.probe
	}
	if cmd.Flags().Changed("gateway") {
		user.Gateway = u.gateway
	}
}

func (m *Main) alertsUserDelete() *cobra.Command {
	var u alertUserFlags
	cmd := &cobra.Command{
		Use:     "delete NAME",
		Short:   "Remove a user",
		Example: "  mainstem alerts user delete ada --file users",
		Args:    args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			users, err := u.users(m, cmd)
			if err != nil {
				return err
			}
			if err := users.Delete(a[0]); err != nil {
				return err
			}
			if m.flags.json {
				return m.object(new(fields).text("user", a[0]).add("deleted", true))
			}
			return nil
		},
	}
	u.add(cmd)
	return cmd
}

func (m *Main) alertsUserList() *cobra.Command {
	var u alertUserFlags
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List users in the order of the file",
		Example: "  mainstem alerts user list --file users",
		Args:    args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			users, err := u.users(m, cmd)
			if err != nil {
				return err
			}
			all, err := users.All()
			for i := 0; i < len(all) && err == nil; i++ {
				err = m.printAlertUser(&all[i])
			}
			return err
		},
	}
	u.add(cmd)
	return cmd
}

// printAlertUser writes a user.
func (m *Main) printAlertUser(u *alertserver.User) error {
	kind := ""
	switch {
	case u.Probe:
		kind = "probe"
	case u.Gateway:
		kind = "gateway"
	}
	if m.flags.json {
		f := new(fields).text("user", u.Name).add("role", u.Role)
		if kind != "" {
			f.add("kind", kind)
		}
		return m.object(f)
	}
	if kind != "" {
		return m.line(printable([]byte(u.Name)), u.Role, kind)
	}
	return m.line(printable([]byte(u.Name)), u.Role)
}

// newPassword returns the password for a user, or asks for it on a terminal.
func (m *Main) newPassword(ctx context.Context, file string) (string, error) {
	p, err := m.alertsPassword(file)
	if p != "" || err != nil {
		return p, err
	}
	in, ok := m.Stdin.(*os.File)
	if !ok || !isTerminal(in) {
		return "", fmt.Errorf("a user needs a password: name a file with --password-file, or set %s", alertsPasswordVariable)
	}
	return m.askPassword(ctx, in)
}

// askPassword asks a person for a new password, twice, and shows nothing of it.
func (m *Main) askPassword(ctx context.Context, in *os.File) (string, error) {
	var given [2]string
	for i, prompt := range []string{"password: ", "once more: "} {
		fmt.Fprint(m.Stderr, prompt)
		text, err := readHidden(ctx, in)
		fmt.Fprintln(m.Stderr)
		if err != nil {
			return "", fmt.Errorf("reading the password: %w", err)
		}
		given[i] = text
	}
	switch {
	case given[0] != given[1]:
		return "", errors.New("the passwords differ: nothing was changed")
	case given[0] == "":
		return "", errors.New("the password is empty: nothing was changed")
	}
	return given[0], nil
}

// readHidden reads a line that the terminal does not show. When ctx ends it gives the
// terminal back as it was; the read itself goes on, in a process that is about to end.
func readHidden(ctx context.Context, in *os.File) (string, error) {
	fd := int(in.Fd())
	state, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	type line struct {
		text []byte
		err  error
	}
	read := make(chan line, 1)
	go func() {
		text, err := term.ReadPassword(fd)
		read <- line{text, err}
	}()
	select {
	case l := <-read:
		return string(l.text), l.err
	case <-ctx.Done():
		return "", errors.Join(context.Cause(ctx), term.Restore(fd, state))
	}
}
