package topiccmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/topic"
)

func (m commands) newAlter() *cobra.Command {
	var config, defaults []string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "alter TOPIC",
		Short: "Change the configuration of a topic",
		Long: `Change the configuration of a topic, and show what changes: name, old and new value.

--config takes Kafka's topic configurations, as topic create does, and --default sets
one back to its default. All of it changes, or with an error nothing. It holds for the
next record, and for retention and compaction when they next run.`,
		Example: `  mainstem topic alter orders --config retention.ms=86400000 --default retention.bytes
  mainstem topic alter prices --config cleanup.policy=compact,delete --dry-run`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			given, err := cli.Pairs("config", config)
			if err == nil && len(given)+len(defaults) == 0 {
				err = errors.New("give --config or --default: there is nothing to change")
			}
			for _, name := range defaults {
				if _, ok := given[name]; ok && err == nil {
					err = fmt.Errorf("%s is given with --config and --default", name)
				}
			}
			if err != nil {
				return cli.WrongUsage(cmd, err)
			}
			return m.withTopics(cmd, cli.Reading, func(ctx context.Context, c *topic.Catalog) error {
				old, changed, err := alter(ctx, c, a[0], given, defaults, dryRun)
				if err != nil {
					return err
				}
				return m.printChanges(a[0], old, changed, dryRun)
			})
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&config, "config", nil, "configuration `NAME=VALUE`; may be repeated")
	f.StringArrayVar(&defaults, "default", nil, "set this `configuration` back to its default; may be repeated")
	f.BoolVar(&dryRun, "dry-run", false, "only check, and show what would change")
	return cmd
}

// alter changes configurations of a topic, or only checks that this can be done, and returns those
// before and after.
func alter(ctx context.Context, c *topic.Catalog, name string, given map[string]string, defaults []string, dryRun bool) (before, after topic.Config, err error) {
	edit := func(cfg topic.Config) error {
		before = maps.Clone(cfg)
		for _, k := range defaults {
			if err := (topic.Config{k: topic.Config{}.Get(k)}).Validate(); err != nil {
				return err // an unknown name
			}
			delete(cfg, k)
		}
		maps.Copy(cfg, given)
		after = maps.Clone(cfg)
		return cfg.Validate()
	}
	if !dryRun {
		err = c.Alter(ctx, name, edit)
		return before, after, err
	}
	t, err := c.Topic(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	cfg := topic.Config{}
	maps.Copy(cfg, t.Config())
	err = edit(cfg)
	return before, after, err
}

// printChanges shows each configuration that differs in value.
func (m commands) printChanges(name string, before, after topic.Config, dryRun bool) error {
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		was, is := before.Get(k), after.Get(k)
		if was == is {
			continue
		}
		err := error(nil)
		if m.Flags.JSON {
			f := new(cli.Fields).Add("topic", name).Add("name", k).Add("old", was).Add("new", is)
			cli.Opt(f, "dry_run", dryRun)
			err = m.Object(f)
		} else {
			err = m.Line(k, was, is)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
