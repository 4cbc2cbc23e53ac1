package alertcmd

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/coordinator/client"
)

// mergeFlags ask for the rows of all clusters as one result.
type mergeFlags struct {
	merge   bool
	orderBy []string
	limit   int
}

func (f *mergeFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVar(&f.merge, "merge", false, "show the rows of all clusters as one result")
	fs.StringSliceVar(&f.orderBy, "order-by", nil, "`columns` by which merged rows are sorted, each with asc or desc, separated by commas")
	fs.IntVar(&f.limit, "limit-rows", 0, "show at most this `number` of merged rows (default all)")
}

func (f *mergeFlags) spec(cmd *cobra.Command) *client.Merge {
	changed := cmd.Flags().Changed
	if !f.merge && !changed("order-by") && !changed("limit-rows") {
		return nil
	}
	return &client.Merge{OrderBy: f.orderBy, Limit: f.limit, ClusterColumn: "cluster"}
}

// clusterTables are the tables of many clusters, by way of a coordinator.
type clusterTables struct {
	client   *client.Client
	clusters []string // to ask; empty: all
	merge    *client.Merge
	readOnly bool
}

func (t *clusterTables) close() error { return t.client.Close() }

// checkNames refuses names of clusters that do not exist, which the coordinator ignores.
func (t *clusterTables) checkNames(ctx context.Context) error {
	if len(t.clusters) == 0 {
		return nil
	}
	names, err := t.client.ClusterNames(ctx)
	if err != nil {
		return err
	}
	slices.Sort(names)
	known := "the coordinator has no clusters"
	if len(names) > 0 {
		known = "there are " + strings.Join(names, ", ")
	}
	for _, name := range t.clusters {
		if !slices.Contains(names, name) {
			return mainstem.Errorf(mainstem.KindNotFound, "alerts", "no cluster is called %s: %s", name, known)
		}
	}
	return nil
}

func (t *clusterTables) each(ctx context.Context, statement string, do func(*alertResult) error) error {
	if err := refuseWriting(t.readOnly, statement); err != nil {
		return err
	}
	results, err := t.ask(ctx, statement)
	if err != nil {
		return err
	}
	var columns []alertColumn // for those that have no rows
	for i := range results {
		if len(results[i].Rows) > 0 {
			columns = columnsOfRow(results[i].Rows[0])
			break
		}
	}
	for i := range results {
		if err := do(clusterResult(&results[i], columns)); err != nil {
			return err
		}
	}
	return nil
}

// ask returns the answers, in the order of the clusters' names. Merged rows come first;
// they are of no cluster.
func (t *clusterTables) ask(ctx context.Context, statement string) ([]client.Result, error) {
	if t.merge != nil && readsOnly([]string{statement}) {
		merged, failed, err := t.client.Merged(ctx, *t.merge, statement, t.clusters...)
		if err != nil {
			return nil, err
		}
		merged.Cluster = ""
		return append([]client.Result{merged}, failed...), nil
	}
	results, err := t.client.RawSQL(ctx, statement, t.clusters...)
	slices.SortFunc(results, func(a, b client.Result) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return results, err
}

func clusterResult(r *client.Result, columns []alertColumn) *alertResult {
	out := &alertResult{cluster: r.Cluster, columns: columns, affected: func() int64 { return r.Affected }}
	if r.Err != nil {
		out.err = r.Err
	}
	if len(r.Rows) > 0 {
		out.columns = columnsOfRow(r.Rows[0])
	}
	out.rows = func(yield func([]alert.Value, error) bool) {
		for _, row := range r.Rows {
			if !yield(rowValues(row, out.columns), nil) {
				return
			}
		}
	}
	return out
}

func (t *clusterTables) insert(ctx context.Context, table string, row alertInsert, do func(*alertInserted) error) error {
	columns, err := describedColumns(ctx, t, table)
	if err != nil {
		return err
	}
	values, err := typedRow(table, &row, columns)
	if err != nil {
		return err
	}
	results, err := t.ask(ctx, insertStatement(table, row.columns, [][]alert.Value{values}, row.updating))
	if err != nil {
		return err
	}
	for i := range results {
		done := &alertInserted{cluster: results[i].Cluster, affected: results[i].Affected}
		if results[i].Err != nil {
			done.err = results[i].Err
		}
		if err := do(done); err != nil {
			return err
		}
	}
	return nil
}

// changes is not possible: a coordinator tells nothing by itself.
func (t *clusterTables) changes(context.Context, string, *alert.ChangeOptions) iter.Seq2[alertChange, error] {
	return func(yield func(alertChange, error) bool) {
		yield(alertChange{}, mainstem.Errorf(mainstem.KindUnsupported, "alerts", "a coordinator has no feed of changes").WithHint("follow one server with --url"))
	}
}
