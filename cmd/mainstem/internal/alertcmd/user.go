package alertcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/alertserver"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

// usersSetting names the file of users for the server; commands take it too.
const usersSetting = "MAINSTEM_OMNIBUS_USERS"

func (m commands) newUser() *cobra.Command {
	c := &cobra.Command{
		Use:   "user",
		Short: "Users that clients of alert tables authenticate as",
		Long: `Users that clients of alert tables authenticate as, in a file that the server is told
with serve --omnibus-users. The file holds names, roles, and salted hashes of passwords.
A change holds for the next request to a server that runs, at the latest after a second.

A reader may only ask; a writer may insert, change and delete rows; an admin may do
everything, such as altering tables.`,
		RunE: cli.Group,
	}
	c.AddCommand(m.newUserSet(), m.newUserDelete(), m.newUserList())
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
func (u *alertUserFlags) users(m *cli.Main, cmd *cobra.Command) (*alertserver.UserFile, error) {
	file := cmp.Or(u.file, m.Variable(usersSetting))
	if file == "" {
		return nil, cli.WrongUsage(cmd, fmt.Errorf("name the file of users with --file, or set %s", usersSetting))
	}
	return alertserver.NewUserFile(file), nil
}

func (m commands) newUserSet() *cobra.Command {
	var u alertUserFlags
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Create a user, or give it another password",
		Long: `Create a user, or give it another password; what is not said about a user who exists
stays. The password is the content of --password-file or of
$MAINSTEM_ALERTS_PASSWORD_FILE, else $MAINSTEM_ALERTS_PASSWORD, else a terminal is asked.`,
		Example: `  mainstem alerts user set ada --file users --role admin
  mainstem alerts user set syslogd --file users --role writer --probe --password-file password.txt`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			users, err := u.users(m.Main, cmd)
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
				return cli.WrongUsage(cmd, err)
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

func (m commands) newUserDelete() *cobra.Command {
	var u alertUserFlags
	cmd := &cobra.Command{
		Use:     "delete NAME",
		Short:   "Remove a user",
		Example: "  mainstem alerts user delete ada --file users",
		Args:    cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			users, err := u.users(m.Main, cmd)
			if err != nil {
				return err
			}
			if err := users.Delete(a[0]); err != nil {
				return err
			}
			return m.Deleted(new(cli.Fields).Text("user", a[0]))
		},
	}
	u.add(cmd)
	return cmd
}

func (m commands) newUserList() *cobra.Command {
	var u alertUserFlags
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List users in the order of the file",
		Example: "  mainstem alerts user list --file users",
		Args:    cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			users, err := u.users(m.Main, cmd)
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
func (m commands) printAlertUser(u *alertserver.User) error {
	kind := ""
	switch {
	case u.Probe:
		kind = "probe"
	case u.Gateway:
		kind = "gateway"
	}
	if m.Flags.JSON {
		f := new(cli.Fields).Text("user", u.Name).Add("role", u.Role)
		if kind != "" {
			f.Add("kind", kind)
		}
		return m.Object(f)
	}
	if kind != "" {
		return m.Line(cli.Printable(u.Name), u.Role, kind)
	}
	return m.Line(cli.Printable(u.Name), u.Role)
}

// newPassword returns the password for a user, or asks for it on a terminal.
func (m commands) newPassword(ctx context.Context, file string) (string, error) {
	p, err := m.Password(file, cli.AlertsPassword)
	if p != "" || err != nil {
		return p, err
	}
	in, ok := m.Stdin.(*os.File)
	if !ok || !cli.IsTerminal(in) {
		return "", cli.NoPassword(cli.AlertsPassword)
	}
	return m.askPassword(ctx, in)
}

// askPassword asks a person for a new password, twice, and shows nothing of it.
func (m commands) askPassword(ctx context.Context, in *os.File) (string, error) {
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
