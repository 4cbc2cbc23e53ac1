// Package ingest makes what other systems send into alerts: files of JSON Lines and
// CSV, syslog over UDP and TCP, notifications of Prometheus and its Alertmanager.
//
// # Words
//
// A [Source] delivers events; an [Event] is fields with names and texts. A [Mapping] says
// which row an event becomes; [Mappings] are those of a file, with built-in ones for what
// it does not name. A [Sink] takes rows: a server in this process ([OpenServer]) or
// elsewhere. [Import] reads a file; a [SyslogReceiver] and a [Webhook] receive.
//
//	sink := ingest.OpenServer(server, "import")
//	defer sink.Close()
//	report, err := ingest.Import(ctx, file, sink, &ingest.ImportOptions{File: "alerts.jsonl"})
//
//	receiver, err := ingest.OpenSyslog(sink, nil)
//	go receiver.ServeUDP(socket)
//	defer receiver.Close(ctx)
//
// # Mappings
//
// A mapping file has a section for each source, with columns and what they get; see
// docs/alert-ingest.md. The built-in mappings are in the folder mappings, and what a
// section does not say it inherits from them.
//
//	syslog:
//	  drop:
//	    - {field: severity, in: [info, debug]}
//	  columns:
//	    Node: "${hostname:-${peer_ip}|lower}"
//	    Severity: {field: severity, table: levels, default: 2}
//	tables:
//	  levels: {emerg: 5, alert: 5, crit: 5, err: 4, warning: 3}
//
// # Guarantees
//
//   - Nothing is lost without being counted: see [Report] and [Counters].
//   - A webhook answers 200 when all its alerts are written as durably as the sink does it.
//   - What is waiting becomes one insert, so that many senders share a commit; a sink
//     that fails is tried again, and senders that can wait do.
//   - A receiver that closes takes what senders over TCP and UDP have sent by then, also on
//     connections that are established and not yet accepted.
//   - A row that the sink refuses costs no other row.
//   - Everything may come twice: alerts deduplicate. With a sink that treats the sender as a
//     probe ([App]), what has a time is not even counted twice.
//
// # Errors
//
// [*mainstem.Error]: Invalid for options, mappings and lines, Unavailable for what could
// not be written in time or read, and what the sink reports.
//
// # Concurrency and ownership
//
// Mappings are read-only. A receiver owns one goroutine that writes, one for each
// connection, and the sockets that it is given; Close ends all of them. Import runs in
// its caller's goroutine.
//
// # Limits
//
// [MaxFields] of an event, [DefaultMaxLine] of a file, [syslog.DefaultMaxMessage] of a
// message, [DefaultMaxBody] and [DefaultMaxAlerts] of a request, [DefaultQueue] rows that
// wait, of 64 MiB at most, [DefaultMaxConnections], [MaxMappingFile].
//
// # Testing
//
// Over real sockets into a real server. Every decoder is fuzzed.
//
//snippet:var server *alert.Server
//snippet:var file io.Reader
//snippet:var socket net.PacketConn
package ingest
