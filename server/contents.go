package server

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/natslog"
	"github.com/mainstemdev/mainstem/engine/natslog/embedded"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/engine/pglog"
)

// scrapeTimeout bounds the calls that one scrape makes to the log.
const scrapeTimeout = 5 * time.Second

// engineStats is an engine that has statistics.
type engineStats interface{ Stats() pebblelog.Stats }

// engineName returns the name of the engine for Info.
func (n *Server) engineName() string {
	switch n.engine.(type) {
	case engineStats:
		return "pebblelog"
	case *natslog.Log, *embedded.Log:
		return "natslog"
	case *pglog.Log:
		return "pglog"
	}
	return ""
}

// contents reports the contents of the log at the time of a scrape.
type contents struct{ log mainstem.Log }

// figure is one number of a scrape.
type figure struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func gauge(name, help string) figure {
	return figure{prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue}
}

func total(name, help string) figure {
	return figure{prometheus.NewDesc(name, help, nil, nil), prometheus.CounterValue}
}

var (
	spacesFigure  = gauge("mainstem_spaces", "Spaces in the log.")
	keysFigure    = gauge("mainstem_keys", "Keys that hold a record or tombstone.")
	recordsFigure = gauge("mainstem_records", "Records held, tombstones included.")
	bytesFigure   = gauge("mainstem_bytes", "Bytes of keys, headers and values held, before compression.")
	headFigure    = gauge("mainstem_head_position", "Position of the newest record.")

	diskFigure         = gauge("mainstem_disk_bytes", "Bytes of the log's files.")
	readOnlyFigure     = gauge("mainstem_read_only", "1 if commits are refused after a failed write, else 0.")
	memTableFigure     = gauge("mainstem_memtable_bytes", "Bytes in memory that are not yet in sorted files.")
	hotFigure          = gauge("mainstem_hot_bytes", "Memory that keeps what was written lately ready for readers.")
	pendingFigure      = gauge("mainstem_hot_pending_bytes", "Bytes there that are not yet with the storage engine: how far it is behind.")
	cacheFigure        = gauge("mainstem_cache_bytes", "Bytes in the cache of uncompressed blocks.")
	filesFigure        = gauge("mainstem_sorted_files", "Sorted files.")
	debtFigure         = gauge("mainstem_compaction_debt_bytes", "Bytes that compactions have yet to rewrite, by estimate.")
	hitsFigure         = total("mainstem_cache_hits_total", "Blocks found in the cache.")
	missesFigure       = total("mainstem_cache_misses_total", "Blocks read from disk.")
	compactionsFigure  = total("mainstem_compactions_total", "Compactions done since the log was opened.")
	clockHeldFigure    = gauge("mainstem_clock_held_seconds", "By how much the clock jumped forward, which is not accepted: nothing expires by the jump. 0: the clock is believed.")
	clockAheadFigure   = gauge("mainstem_clock_times_ahead_seconds", "How far the time of the newest record is ahead of the clock.")
	clockJumpsFigure   = total("mainstem_clock_jumps_total", "Jumps of the clock forward by more than a minute since the log was opened.")
	clockSetBackFigure = total("mainstem_clock_set_backs_total", "How often the clock was found behind what was written since the log was opened.")

	groupsFigure = total("mainstem_commit_groups_total", "Writes of the journal since the log was opened; each serves one or more commits.")
)

// Describe implements prometheus.Collector. It describes one metric, which always exists; the
// others depend on the engine.
func (c *contents) Describe(ch chan<- *prometheus.Desc) { ch <- spacesFigure.desc }

// Collect implements prometheus.Collector.
func (c *contents) Collect(ch chan<- prometheus.Metric) {
	send := func(f figure, v float64) { ch <- prometheus.MustNewConstMetric(f.desc, f.kind, v) }
	if s, ok := c.log.(engineStats); ok {
		sendStats(s.Stats(), send)
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	if k, ok := c.log.(mainstem.ClockKeeper); ok {
		if s, err := k.Clock(ctx); err == nil {
			send(clockHeldFigure, s.Held.Seconds())
			send(clockAheadFigure, s.TimesAhead.Seconds())
			send(clockJumpsFigure, float64(s.Jumps))
			send(clockSetBackFigure, float64(s.SetBacks))
		}
	}
	var sum mainstem.SpaceInfo
	spaces := 0
	for s, err := range c.log.Spaces(ctx, "") {
		if err != nil {
			ch <- prometheus.NewInvalidMetric(spacesFigure.desc, err)
			return
		}
		spaces++
		sum.Keys, sum.Records, sum.Bytes = sum.Keys+s.Keys, sum.Records+s.Records, sum.Bytes+s.Bytes
	}
	send(spacesFigure, float64(spaces))
	send(keysFigure, float64(sum.Keys))
	send(recordsFigure, float64(sum.Records))
	send(bytesFigure, float64(sum.Bytes))
	if head, err := c.log.Head(ctx); err == nil {
		send(headFigure, float64(head))
	}
}

func sendStats(s pebblelog.Stats, send func(figure, float64)) {
	readOnly := 0.0
	if s.ReadOnly {
		readOnly = 1
	}
	send(readOnlyFigure, readOnly)
	send(diskFigure, float64(s.DiskBytes))
	send(memTableFigure, float64(s.MemTable))
	send(hotFigure, float64(s.HotBytes))
	send(pendingFigure, float64(s.HotPending))
	send(cacheFigure, float64(s.CacheBytes))
	send(filesFigure, float64(s.SortedFiles))
	send(debtFigure, float64(s.PendingBytes))
	send(hitsFigure, float64(s.CacheHits))
	send(missesFigure, float64(s.CacheMisses))
	send(compactionsFigure, float64(s.Compactions))
	send(groupsFigure, float64(s.Groups))
}
