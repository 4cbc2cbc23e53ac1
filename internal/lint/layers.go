package lint

import "strings"

// Layer is a row of the import table: what some folders may import outside of
// tests, besides the standard library and what lies below the same folder.
type Layer struct {
	Name    string
	Dirs    []string // each with all below it, unless another layer names a longer prefix; "." is the root package only
	May     []string // folders of this module, each with all below it; "." is the root package only
	Libs    []string // import paths of other modules, each with all below it
	Because string
}

// anything in [Layer.May] allows every folder of the module, in [Layer.Libs]
// every other module.
const anything = "*"

// protobuf is the Protobuf runtime.
const protobuf = "google.golang.org/protobuf"

// Layers is the import table. Every folder with Go code is in one layer. Views
// never import engines and engines never import views: only package server, the
// command and tests bring them together.
var Layers = []Layer{
	{
		Name:    "the contract",
		Dirs:    []string{"."},
		Because: "everything stands on the contract, so it stands on nothing but the standard library",
	},
	{
		Name:    "the codecs",
		Dirs:    []string{"codec"},
		Because: "a codec turns values into bytes and knows no log; views import this package, so it links no library",
	},
	{
		Name:    "a codec with a library",
		Dirs:    []string{"codec/cbor", "codec/msgpack", "codec/protobuf"},
		May:     []string{"codec"},
		Libs:    []string{protobuf, "github.com/fxamacker/cbor/v2", "github.com/vmihailenco/msgpack/v5"},
		Because: "each is a leaf: only a program that names it links its library",
	},
	{
		Name:    "the actor runtime",
		Dirs:    []string{"actor"},
		May:     []string{".", "internal/accept", "internal/backoff", "internal/invariants"},
		Libs:    []string{"github.com/robfig/cron/v3", "github.com/prometheus/client_golang/prometheus", "go.opentelemetry.io/otel"},
		Because: "actors run without a log; what joins them to one, and to other machines, stands above",
	},
	{
		Name:    "the network of actors",
		Dirs:    []string{"actor/cluster"},
		May:     []string{".", "actor", "codec", "kv", "lease", "internal/backoff", "internal/invariants"},
		Libs:    []string{"go.opentelemetry.io/otel"},
		Because: "nodes find each other through a bucket of a log, which is the one view that it needs; the runtime does not need the network",
	},
	{
		Name:    "a server as a node of actors",
		Dirs:    []string{"actor/cluster/clusterserver"},
		May:     []string{".", "actor", "server", "internal/readfile", "internal/redact"},
		Because: "a component knows its protocol and what a server gives it; package server knows no protocol",
	},
	{
		Name:    "the wire between nodes",
		Dirs:    []string{"actor/cluster/link", "actor/cluster/devca"},
		May:     []string{".", "internal/accept", "internal/backoff", "internal/invariants", "internal/readfile", "internal/wake"},
		Libs:    []string{"github.com/klauspost/compress", "github.com/pierrec/lz4/v4"},
		Because: "it carries bytes between named nodes and knows nothing of actors",
	},
	{
		Name:    "the kv view",
		Dirs:    []string{"kv"},
		May:     []string{".", "codec", "internal/backoff", "internal/format", "internal/invariants"},
		Because: "a view works on any engine and beside any other view, so it knows the contract only",
	},
	{
		Name:    "leases",
		Dirs:    []string{"lease"},
		May:     []string{".", "codec", "kv", "internal/backoff", "internal/invariants", "internal/uuid", "internal/wake"},
		Because: "ownership with fencing is a bucket whose entries expire; several duties need it, so it belongs to none of them",
	},
	{
		Name:    "the buckets of JetStream",
		Dirs:    []string{"contrib/natskv"},
		May:     []string{".", "codec", "kv", "internal/backoff", "internal/invariants", "internal/redact", "internal/wake"},
		Libs:    []string{"github.com/nats-io/nats.go"},
		Because: "it is the kv view on what others keep in JetStream, where there is no log",
	},
	{
		Name:    "the event view",
		Dirs:    []string{"event"},
		May:     []string{".", "codec", "internal/backoff", "internal/format", "internal/invariants", "internal/outcome", "internal/uuid"},
		Because: "a view works on any engine and beside any other view, so it knows the contract only",
	},
	{
		Name:    "the toolkit of events",
		Dirs:    []string{"event/aggregate", "event/command", "event/eventtest", "event/projection", "event/readmodel"},
		May:     []string{".", "codec", "event", "kv", "lease", "internal/backoff", "internal/invariants", "internal/outcome", "internal/uuid", "internal/wake"},
		Because: "it stands on the event store, on tables for what it remembers, and on leases for what processes share; a program of it links no library",
	},
	{
		Name:    "read models in PostgreSQL",
		Dirs:    []string{"event/readmodel/pg"},
		May:     []string{".", "event/projection", "event/readmodel", "kv", "internal/uuid"},
		Libs:    []string{"github.com/jackc/pgx/v5"},
		Because: "it is a leaf: only a program that names it links its library; the engine on PostgreSQL comes to it as a log",
	},
	{
		Name:    "sagas",
		Dirs:    []string{"event/saga"},
		May:     []string{".", "codec", "event", "event/command", "kv", "lease", "internal/backoff", "internal/outcome", "internal/wake"},
		Because: "sagas react to events with commands; a lease lets one process at a time carry them out",
	},
	{
		Name:    "metrics of projections",
		Dirs:    []string{"event/projection/projectionprom"},
		May:     []string{".", "event/projection"},
		Libs:    []string{"github.com/prometheus/client_golang/prometheus"},
		Because: "it is a leaf: only a program that names it links its library",
	},
	{
		Name:    "metrics of sagas",
		Dirs:    []string{"event/saga/sagaprom"},
		May:     []string{".", "event/saga"},
		Libs:    []string{"github.com/prometheus/client_golang/prometheus"},
		Because: "it is a leaf: only a program that names it links its library",
	},
	{
		Name:    "metrics and traces of commands",
		Dirs:    []string{"event/command/commandprom", "event/command/commandotel"},
		May:     []string{".", "event/command"},
		Libs:    []string{"github.com/prometheus/client_golang/prometheus", "go.opentelemetry.io/otel"},
		Because: "each is a leaf: only a program that names it links its library",
	},
	{
		Name: "the topic view",
		Dirs: []string{"topic"},
		May:  []string{".", "codec", "internal/budget", "internal/follow", "internal/format", "internal/invariants", "internal/uuid", "internal/wake"},
		Libs: []string{
			"github.com/twmb/franz-go/pkg/kmsg", "github.com/twmb/franz-go/pkg/kbin",
			"github.com/klauspost/compress", "github.com/pierrec/lz4/v4",
		},
		Because: "a view works on any engine and beside any other view, so it knows the contract only; topics store record batches of Kafka, and its compression formats with them",
	},
	{
		Name:    "the alert view",
		Dirs:    []string{"alert"},
		May:     []string{".", "codec", "internal/backoff", "internal/budget", "internal/format", "internal/invariants", "internal/wake"},
		Libs:    []string{"modernc.org/sqlite", "github.com/alecthomas/participle/v2"},
		Because: "a view works on any engine and beside any other view, so it knows the contract only; SQLite answers queries",
	},
	{
		Name:    "the alert tables of a server",
		Dirs:    []string{"alert/alertserver"},
		May:     []string{".", "alert", "server", "internal/readfile"},
		Libs:    []string{"github.com/prometheus/client_golang"},
		Because: "a component knows its protocol and what a server gives it; package server knows no protocol",
	},
	{
		Name:    "a client of the alert table",
		Dirs:    []string{"alert/omnirest", "alert/coordinator/client"},
		May:     []string{".", "alert/omnirest", "internal/redact"},
		Because: "a program that asks a server links neither the server nor its tables",
	},
	{
		Name:    "the coordinator",
		Dirs:    []string{"alert/coordinator"},
		May:     []string{".", "alert", "internal/invariants"},
		Libs:    []string{"gopkg.in/yaml.v3", "github.com/prometheus/client_golang"},
		Because: "it asks object servers, by HTTP or in the same process; which log is below one is not its affair",
	},
	{
		Name:    "ways into the alert table",
		Dirs:    []string{"alert/ingest"},
		May:     []string{".", "alert", "internal/accept", "internal/backoff", "internal/budget", "internal/readfile"},
		Libs:    []string{"gopkg.in/yaml.v3"},
		Because: "what comes in becomes rows, over a connection or in the same process",
	},
	{
		Name:    "the embedded engine",
		Dirs:    []string{"engine/pebblelog"},
		May:     []string{".", "internal/backoff", "internal/format", "internal/inuse", "internal/invariants", "internal/journal", "internal/readfile", "internal/store", "internal/uuid", "internal/wake", "internal/wallclock"},
		Libs:    []string{"github.com/cockroachdb/pebble/v2", "golang.org/x/sys"},
		Because: "an engine carries any view, so it knows none, and no other engine",
	},
	{
		Name:    "the remote engine",
		Dirs:    []string{"engine/remotelog"},
		May:     []string{".", "internal/backoff", "internal/format", "internal/invariants", "internal/message", "internal/redact", "internal/session", "internal/wake", "wire/rpc/mainstem"},
		Libs:    []string{"connectrpc.com/connect", protobuf, "golang.org/x/net"},
		Because: "an engine carries any view, so it knows none; of the server it needs the messages, not the handler",
	},
	{
		Name:    "the engine on JetStream",
		Dirs:    []string{"engine/natslog"},
		May:     []string{".", "internal/backoff", "internal/format", "internal/invariants", "internal/redact", "internal/wake", "internal/wallclock"},
		Libs:    []string{"github.com/nats-io/nats.go"},
		Because: "an engine carries any view, so it knows none, and no other engine",
	},
	{
		Name:    "the server inside a process",
		Dirs:    []string{"engine/natslog/embedded"},
		May:     []string{".", "engine/natslog", "internal/inuse"},
		Libs:    []string{"github.com/nats-io/nats-server/v2", "github.com/nats-io/nats.go"},
		Because: "who only dials must not link the server",
	},
	{
		Name:    "the engine on PostgreSQL",
		Dirs:    []string{"engine/pglog"},
		May:     []string{".", "internal/backoff", "internal/format", "internal/invariants", "internal/redact", "internal/wake", "internal/wallclock"},
		Libs:    []string{"github.com/jackc/pgx/v5"},
		Because: "an engine carries any view, so it knows none, and no other engine",
	},
	{
		Name:    "the conformance suite",
		Dirs:    []string{"enginetest"},
		May:     []string{".", "internal/testkit", "internal/wallclock"},
		Libs:    []string{"pgregory.net/rapid", "github.com/google/go-cmp"},
		Because: "an engine of somebody else links the suite, which must not bring an engine of ours along; the rules by which records expire are those of all engines",
	},
	{
		Name:    "the connection between the remote engine and its server",
		Dirs:    []string{"internal/session"},
		Because: "both sides use the one machine of frames and credit, which knows neither logs nor messages",
	},
	{
		Name:    "the messages between the remote engine and its server",
		Dirs:    []string{"internal/message"},
		May:     []string{".", "wire/rpc/mainstem"},
		Libs:    []string{"connectrpc.com/connect", protobuf},
		Because: "both sides use the one translation, so it holds neither the handler nor a client",
	},
	{
		Name:    "a protocol server",
		Dirs:    []string{"wire"},
		May:     []string{".", "codec", "kv", "event", "topic", "internal/budget", "internal/format", "internal/invariants", "internal/message", "internal/session", "internal/wake"},
		Libs:    []string{"connectrpc.com/connect", protobuf, "golang.org/x/net"},
		Because: "a server speaks a protocol over the contract and the views; which engine is below is for package server to choose",
	},
	{
		Name:    "the views over HTTP",
		Dirs:    []string{"wire/http"},
		May:     []string{".", "codec", "kv", "event", "topic", "internal/backoff", "internal/budget", "internal/claims"},
		Because: "it shows all views of a log as JSON, so it knows them and nothing below; alert tables come through an interface, so that it links no SQLite",
	},
	{
		Name:    "the views of a server",
		Dirs:    []string{"wire/http/viewserver"},
		May:     []string{".", "server", "wire/http"},
		Libs:    []string{"github.com/prometheus/client_golang"},
		Because: "a component knows its protocol and what a server gives it; package server knows no protocol",
	},
	{
		Name:    "the log as topics",
		Dirs:    []string{"internal/feedtopic"},
		May:     []string{".", "topic", "internal/follow", "internal/wake"},
		Libs:    []string{"github.com/twmb/franz-go/pkg/kmsg", "github.com/twmb/franz-go/pkg/kbin"},
		Because: "what shows records of the log to Kafka's consumers stands beside its view, and shares this",
	},
	{
		Name:    "the Kafka listener of a server",
		Dirs:    []string{"wire/kafka/kafkaserver"},
		May:     []string{".", "alert/kafkatopic", "lease", "server", "topic", "wire/kafka", "internal/backoff", "internal/invariants"},
		Libs:    []string{"github.com/prometheus/client_golang"},
		Because: "a component knows its protocol and what a server gives it; package server knows no protocol",
	},
	{
		Name:    "event stores as topics",
		Dirs:    []string{"wire/kafka/eventtopic"},
		May:     []string{".", "event", "topic", "internal/feedtopic"},
		Because: "the Kafka server gets it as an option, so that it links what it serves and no more",
	},
	{
		Name:    "tables of alerts as topics",
		Dirs:    []string{"alert/kafkatopic"},
		May:     []string{".", "alert", "topic", "internal/feedtopic"},
		Because: "the Kafka server gets it as an option, so that it links what it serves and no more",
	},
	{
		Name: "the Kafka server",
		Dirs: []string{"wire/kafka"},
		May:  []string{".", "topic", "internal/accept", "internal/backoff", "internal/budget", "internal/format", "internal/invariants", "internal/wake"},
		Libs: []string{
			"github.com/twmb/franz-go/pkg/kmsg", "github.com/twmb/franz-go/pkg/kerr", "github.com/twmb/franz-go/pkg/kbin",
			"github.com/xdg-go/scram",
		},
		Because: "a server speaks a protocol over the contract and the views; which engine is below is for package server to choose",
	},
	{
		Name:    "the OMNIbus server",
		Dirs:    []string{"alert/omnibus"},
		May:     []string{".", "alert", "internal/backoff", "internal/budget", "internal/invariants", "internal/wake"},
		Libs:    []string{"github.com/prometheus/client_golang", "github.com/klauspost/compress"},
		Because: "a server speaks a protocol over a view; which engine is below is for package server to choose",
	},
	{
		Name:    "the generator of the protocol's code",
		Dirs:    []string{"wire/rpc/internal/gen"},
		Libs:    []string{"github.com/bufbuild/protocompile", protobuf},
		Because: "it runs when the protocol changes, and what it imports is in no program",
	},
	{
		Name:    "the server",
		Dirs:    []string{"server"},
		May:     []string{".", "topic", "engine", "wire/rpc", "internal/budget", "internal/readfile", "internal/redact"},
		Libs:    []string{"github.com/prometheus/client_golang", "gopkg.in/yaml.v3", protobuf, "github.com/cockroachdb/pebble/v2/vfs", "github.com/nats-io/nats.go"},
		Because: "it opens an engine and runs components, which stand above it and know the protocols; of the views it needs topics, whose upkeep is the work of every server",
	},
	{
		Name:    "the command line",
		Dirs:    []string{"cmd"},
		Libs:    []string{"github.com/spf13/cobra"},
		Because: "it puts the groups of commands together, each a package below it",
	},
	{
		Name:    "what all commands share",
		Dirs:    []string{"cmd/mainstem/internal/cli"},
		May:     []string{".", "server", "internal/readfile", "internal/redact"},
		Libs:    []string{"github.com/spf13/cobra", "golang.org/x/term"},
		Because: "every group of commands imports it, so it knows no view and no group",
	},
	{
		Name:    "tests of commands",
		Dirs:    []string{"cmd/mainstem/internal/clitest"},
		May:     []string{"cmd/mainstem/internal/cli"},
		Libs:    []string{"github.com/spf13/cobra"},
		Because: "only tests of groups of commands import it",
	},
	{
		Name:    "imports of files",
		Dirs:    []string{"cmd/mainstem/internal/importer", "cmd/mainstem/internal/rows"},
		May:     []string{".", "server", "cmd/mainstem/internal/cli", "cmd/mainstem/internal/rows", "internal/backoff", "internal/uuid"},
		Libs:    []string{"github.com/spf13/cobra"},
		Because: "groups of several views import files with it, so it knows none of them",
	},
	{
		Name:    "the commands on a view",
		Dirs:    []string{"cmd/mainstem/internal/kvcmd", "cmd/mainstem/internal/eventcmd", "cmd/mainstem/internal/projectioncmd", "cmd/mainstem/internal/sagacmd", "cmd/mainstem/internal/auditcmd", "cmd/mainstem/internal/topiccmd", "cmd/mainstem/internal/leasecmd"},
		May:     []string{".", "kv", "event", "event/projection", "lease", "topic", "server", "wire/kafka", "cmd/mainstem/internal/cli", "cmd/mainstem/internal/importer", "cmd/mainstem/internal/rows", "internal/claims", "internal/uuid"},
		Libs:    []string{"github.com/spf13/cobra"},
		Because: "commands open a log by package server and use the view on it; which engine is below is for package server to choose",
	},
	{
		Name:    "the commands on Kafka clients",
		Dirs:    []string{"cmd/mainstem/internal/kafkacmd"},
		May:     []string{".", "topic", "server", "wire/kafka", "wire/kafka/eventtopic", "alert/kafkatopic", "cmd/mainstem/internal/cli"},
		Libs:    []string{"github.com/spf13/cobra"},
		Because: "groups read event stores and tables of alerts as topics, as the Kafka listener shows them",
	},
	{
		Name:    "completion in shells",
		Dirs:    []string{"cmd/mainstem/internal/complete"},
		May:     []string{".", "kv", "event", "lease", "topic", "wire/kafka", "wire/kafka/eventtopic", "alert/kafkatopic", "cmd/mainstem/internal/cli", "internal/claims"},
		Libs:    []string{"github.com/spf13/cobra"},
		Because: "one package lists the names of every view, so that groups of commands need not",
	},
	{
		Name:    "the command that writes Go files",
		Dirs:    []string{"cmd/mainstem/internal/generatecmd"},
		May:     []string{".", "cmd/mainstem/internal/cli"},
		Libs:    []string{"github.com/spf13/cobra"},
		Because: "it writes programs that use the toolkit, and uses none of it; its test compiles what it writes",
	},
	{
		Name:    "the commands on alert tables",
		Dirs:    []string{"cmd/mainstem/internal/alertcmd"},
		May:     []string{".", "alert", "server", "cmd/mainstem/internal/cli", "cmd/mainstem/internal/importer", "internal/backoff", "internal/readfile"},
		Libs:    []string{"github.com/spf13/cobra", "golang.org/x/term"},
		Because: "they know the view, and the clients of object servers and coordinators",
	},
	{
		Name:    "the commands on actors",
		Dirs:    []string{"cmd/mainstem/internal/actorcmd"},
		May:     []string{"actor/cluster/clusterserver", "actor/cluster/inspect", "actor/cluster/devca", "server", "cmd/mainstem/internal/cli"},
		Libs:    []string{"github.com/spf13/cobra"},
		Because: "they ask a server that is a node, and run no actors",
	},
	{
		Name:    "the commands on a whole log",
		Dirs:    []string{"cmd/mainstem/internal/logcmd"},
		May:     []string{".", "topic", "engine/pebblelog", "server", "cmd/mainstem/internal/cli", "internal/logcopy"},
		Libs:    []string{"github.com/spf13/cobra"},
		Because: "a backup is restored into files of one engine, below the contract; copy knows the one view whose empty partitions it must keep",
	},
	{
		Name:    "mainstem serve",
		Dirs:    []string{"cmd/mainstem/internal/servecmd"},
		May:     []string{"actor/cluster/clusterserver", "alert/alertserver", "server", "wire/http", "wire/kafka/kafkaserver", "cmd/mainstem/internal/cli", "internal/scavenge"},
		Libs:    []string{"github.com/spf13/cobra", "github.com/spf13/pflag"},
		Because: "it chooses the components of the server",
	},
	{
		Name:    "the persisted format",
		Dirs:    []string{"internal/format"},
		May:     []string{"."},
		Because: "the persisted bytes are defined in one place that depends on nothing that can change under them",
	},
	{
		Name:    "the journal",
		Dirs:    []string{"internal/journal"},
		May:     []string{".", "internal/format", "internal/wake"},
		Libs:    []string{"github.com/cockroachdb/pebble/v2/vfs"},
		Because: "engines order with it what it does not interpret; of Pebble it takes only the file system, which tests replace",
	},
	{
		Name:    "the hot tier",
		Dirs:    []string{"internal/store"},
		May:     []string{"internal/format", "internal/invariants"},
		Because: "what is read from memory is apart from what orders it and from the sorted files behind it",
	},
	{
		Name:    "hiding credentials",
		Dirs:    []string{"internal/redact"},
		Because: "whatever prints an address uses it, engines and commands alike, so this one can import none",
	},
	{
		Name:    "the memory budget",
		Dirs:    []string{"internal/budget"},
		Because: "whatever takes memory for a client draws from it, so it can import none of them",
	},
	{
		Name:    "pauses",
		Dirs:    []string{"internal/backoff", "internal/accept"},
		May:     []string{"internal/backoff"},
		Because: "whatever tries again pauses between its tries, and whatever listens accepts again, so these can import none of it",
	},
	{
		Name:    "events handed to consumers elsewhere",
		Dirs:    []string{"internal/claims"},
		May:     []string{".", "event", "internal/backoff"},
		Because: "the views over HTTP hand events out with it, and commands administer it; it knows neither",
	},
	{
		Name:    "commits until the outcome is known",
		Dirs:    []string{"internal/outcome"},
		May:     []string{".", "internal/backoff", "internal/uuid"},
		Because: "whatever commits for a user uses it, so this one knows the contract only",
	},
	{
		Name:    "waiters",
		Dirs:    []string{"internal/wake"},
		Because: "whatever lets readers wait for a change uses it, engines and servers alike, so this one can import none of them",
	},
	{
		Name:    "followers",
		Dirs:    []string{"internal/follow"},
		May:     []string{".", "internal/backoff", "internal/wake"},
		Because: "views and servers follow logs, so this one knows the contract only",
	},
	{
		Name:    "giving memory back",
		Dirs:    []string{"internal/scavenge"},
		Because: "it looks at the whole process, so only the command may call it",
	},
	{
		Name:    "UUIDs",
		Dirs:    []string{"internal/uuid"},
		Because: "views, which link no library, and engines name things by them, so this one can import none",
	},
	{
		Name:    "files that are read whole",
		Dirs:    []string{"internal/readfile"},
		Because: "it bounds what is read, for every package that reads a file",
	},
	{
		Name:    "the invariants",
		Dirs:    []string{"internal/invariants"},
		Because: "every package may check invariants, so this one can import none",
	},
	{
		Name:    "the clock",
		Dirs:    []string{"internal/wallclock"},
		Because: "every engine may watch its clock, so this one can import none",
	},
	{
		Name:    "the rules",
		Dirs:    []string{"internal/lint"},
		Because: "the rules must hold, and run, whatever the state of the packages that they judge",
	},
	{
		Name:    "the code in documents",
		Dirs:    []string{"internal/snippets"},
		Because: "it compiles what documents show against all packages, and can belong to none of them",
	},
	{
		Name:    "copying logs",
		Dirs:    []string{"internal/logcopy"},
		May:     []string{".", "internal/backoff", "internal/invariants"},
		Because: "it copies from any engine to any other, so it knows the contract only",
	},
	{
		Name:    "helpers of tests",
		Dirs:    []string{"internal/testkit"},
		Because: "tests of every package use it, so this one can import none",
	},
	{
		Name:    "logs that fail, for tests",
		Dirs:    []string{"internal/testfaults"},
		May:     []string{"."},
		Because: "tests of every view use it, so it knows the contract only",
	},
	{
		Name:    "servers for tests",
		Dirs:    []string{"internal/testnats", "internal/testpostgres", "internal/testport"},
		May:     []string{"internal/testport"},
		Libs:    []string{"github.com/nats-io/nats.go", "github.com/nats-io/nats-server/v2", "github.com/fergusstrange/embedded-postgres", "github.com/jackc/pgx/v5", "go.uber.org/goleak"},
		Because: "they start what others wrote and know nothing of ours",
	},
	{
		Name:    "who has a directory",
		Dirs:    []string{"internal/inuse"},
		May:     []string{"."},
		Because: "every engine in a directory says it in the same words, so this one can import none",
	},
	{
		Name:    "test support",
		Dirs:    []string{"internal/testengines", "internal/crashtest"},
		May:     []string{".", "engine", "enginetest", "wire", "internal"},
		Libs:    []string{"github.com/cockroachdb/pebble/v2", "pgregory.net/rapid", "github.com/google/go-cmp", "go.uber.org/goleak"},
		Because: "it starts engines for the tests of everything else, views included, so it knows no view",
	},
	{
		Name:    "servers in tests",
		Dirs:    []string{"internal/servertest"},
		May:     []string{".", "server", "internal"},
		Because: "it opens servers for the tests of components, so it knows none of these",
	},
	{
		Name:    "an example",
		Dirs:    []string{"examples"},
		May:     []string{".", "actor", "alert", "codec", "kv", "event", "topic", "engine", "server", "wire", "enginetest"},
		Libs:    []string{"github.com/twmb/franz-go/pkg/kgo"},
		Because: "an example shows what a user of the module can write, who cannot import internal packages; a Kafka client of others reads what it publishes",
	},
	{
		Name:    "the nested modules",
		Dirs:    []string{"bench", "interop"},
		May:     []string{anything},
		Libs:    []string{anything},
		Because: "what they need stays in their own go.mod",
	},
}

// layerOf returns the layer whose folder is the longest prefix of dir, nil if
// there is none.
func layerOf(layers []Layer, dir string) *Layer {
	var found *Layer
	longest := -1
	for i := range layers {
		for _, d := range layers[i].Dirs {
			if within(dir, d) && len(d) > longest {
				found, longest = &layers[i], len(d)
			}
		}
	}
	return found
}

// within reports whether dir is parent or below it. Nothing is below ".".
func within(dir, parent string) bool {
	return dir == parent || strings.HasPrefix(dir, parent+"/")
}

// allows returns whether code in dir may import the package at imported.
func (l *Layer) allows(module, dir, imported string) bool {
	inside, ours := relative(module, imported)
	if !ours {
		return standard(imported) || anyWithin(imported, l.Libs)
	}
	for _, d := range l.Dirs {
		if within(dir, d) && within(inside, d) {
			return true
		}
	}
	return anyWithin(inside, l.May)
}

func anyWithin(p string, parents []string) bool {
	for _, parent := range parents {
		if parent == anything || within(p, parent) {
			return true
		}
	}
	return false
}

// relative returns the folder of an import path of this module.
func relative(module, imported string) (dir string, ours bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

// standard reports whether an import path is of the standard library: no other
// path begins with a name without a dot.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}
