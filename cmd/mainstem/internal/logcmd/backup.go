package logcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

func (m commands) newBackup() *cobra.Command {
	var to string
	var force bool
	cmd := &cobra.Command{
		Use:   "backup --to FILE.tar|DIR|-",
		Short: "Copy a log while it serves",
		Long: `Write a consistent copy of a log: to a file whose name ends in .tar, to a directory
(which then is a log), or with - as a tar stream to standard output. A file appears
under its name only when it is whole, and only its owner may read it.`,
		Example: `  mainstem backup --log http://127.0.0.1:8080 --to monday.tar
  mainstem backup --log ./mainstem-data --to /mnt/copy
  mainstem backup --to - | ssh other 'mainstem restore --from - --to mainstem-data'`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return m.WithLog(cmd, cli.Reading, func(ctx context.Context, log mainstem.Log) error {
				b, ok := log.(mainstem.Backuper)
				if !ok {
					return mainstem.Errorf(mainstem.KindUnsupported, "backup", "this log cannot copy itself")
				}
				return m.runBackup(ctx, b, to, force)
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "`FILE.tar`, directory or - (required)")
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that exists")
	cli.Required(cmd, "to")
	return cmd
}

func (m commands) runBackup(ctx context.Context, b mainstem.Backuper, to string, force bool) error {
	begin := time.Now()
	meter := m.StartMeter("copying", 0)
	n, err := m.copyLog(ctx, b, to, force)
	meter.Finish()
	if err != nil || to == "-" {
		return err
	}
	if m.Flags.JSON {
		return m.Object(new(cli.Fields).Add("to", to).Add("bytes", n).Add("seconds", time.Since(begin).Seconds()))
	}
	return m.Line(fmt.Sprintf("%d bytes to %s in %s", n, to, time.Since(begin).Round(time.Millisecond)))
}

// copyLog writes the copy and returns its size as a tar stream.
func (m commands) copyLog(ctx context.Context, b mainstem.Backuper, to string, force bool) (int64, error) {
	switch {
	case to == "-":
		return 0, b.Backup(ctx, m.Out)
	case strings.HasSuffix(to, ".tar"):
		return backupFile(ctx, b, to, force)
	}
	return pipeLog(ctx, b, to)
}

// backupFile writes the stream beside its place, makes it durable and puts it there.
func backupFile(ctx context.Context, b mainstem.Backuper, path string, force bool) (n int64, err error) {
	if exists(path) && !force {
		return 0, mainstem.Errorf(mainstem.KindExists, "backup", "%s exists", path).WithHint("choose another name, or --force to replace it")
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.partial")
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	c := &counter{w: f}
	if err := b.Backup(ctx, c); err != nil {
		return 0, err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return 0, err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return 0, err
	}
	return c.n, syncDir(filepath.Dir(path))
}

// pipeLog restores what b streams into the directory dir.
func pipeLog(ctx context.Context, b mainstem.Backuper, dir string) (int64, error) {
	r, w := io.Pipe()
	c := &counter{w: w}
	done := make(chan error, 1)
	go func() {
		err := b.Backup(ctx, c)
		w.CloseWithError(err)
		done <- err
	}()
	err := pebblelog.Restore(ctx, r, dir)
	if err == nil {
		_, err = io.Copy(io.Discard, r) // the padding at the end of a tar stream
	}
	r.CloseWithError(errCopyFailed)
	if berr := <-done; berr != nil && !errors.Is(berr, errCopyFailed) {
		err = berr // what went wrong first
	}
	return c.n, err
}

var errCopyFailed = errors.New("the copy failed")

// counter counts what is written through it.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// exists reports whether there is something called path.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
