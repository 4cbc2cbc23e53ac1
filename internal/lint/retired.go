package lint

import "regexp"

// retired are the words that docs/words.md retires. A folder leaves a list when its last
// place was renamed; a test says so.
var retired = []retiredWord{
	{names: []string{"settle", "settled", "settles", "settling"}, prose: word(`settl(e|es|ed|ing)`), instead: "confirm or resolve", left: []string{"actor", "actor/cluster/clustertest", "actor/cluster/link", "alert", "alert/ingest", "bench/suites/actor", "bench/suites/footprint", "contrib/natskv", "engine/natslog", "engine/pebblelog", "engine/pglog", "event", "internal/logcopy", "interop/kafka", "kv", "wire/kafka/internal/group", "wire/kafka/internal/producer"}},
	{names: []string{"demand", "demands", "demanded"}, instead: "addCondition", left: []string{"alert", "event", "interop", "kv"}},
	{names: []string{"owe", "owes", "owed"}, instead: "scheduleSync, pending", left: []string{"actor/cluster/link", "engine/pebblelog"}},
	{names: []string{"flight", "flights"}, instead: "commitGate", in: []string{"engine/pebblelog"}, left: []string{"engine/pebblelog"}},
	{names: []string{"head", "heads"}, instead: "keyState", in: []string{"engine/pebblelog"}, left: []string{"engine/pebblelog"}},
	{names: []string{"ghost", "ghosts"}, prose: word(`ghosts?`), instead: "versionMarker", left: []string{"docs", "docs/decisions", "engine/pebblelog", "internal/format"}},
	{names: []string{"told"}, instead: "lastReported", left: []string{"actor", "actor/cluster", "actor/cluster/clustertest", "actor/cluster/link", "actor/netio", "alert", "alert/ingest/syslog", "bench/contenders/kv", "contrib/natskv", "engine/natslog", "interop/kafka/proxy", "kv", "server", "wire/kafka", "wire/kafka/internal/group", "wire/kafka/internal/producer", "wire/rpc"}},
	{names: []string{"paid", "room"}, instead: "reservation", in: []string{"wire", "internal/budget"}, left: []string{"wire/kafka", "wire/rpc"}},
	{names: []string{"shows"}, instead: "projectedFrom, reservedBy", in: []string{"wire/kafka"}},
	{names: []string{"pretence"}, prose: word(`pretences?`), instead: "dummySecret", left: []string{"wire/kafka"}},
	{names: []string{"recent"}, instead: "topicCache", in: []string{"wire/kafka"}, left: []string{"wire/kafka"}},
	{names: []string{"figures"}, instead: "metrics", in: []string{"server"}, left: []string{"server"}},
	{names: []string{"guide"}, instead: "router", in: []string{"actor"}, left: []string{"actor/cluster/shard"}},
	{names: []string{"hop", "hops"}, instead: "forwardGen", in: []string{"actor"}, left: []string{"actor/cluster/shard"}},
	{names: []string{"parcel", "parcels"}, instead: "envelope", in: []string{"actor", "wire"}, left: []string{"actor/cluster/shard", "wire/rpc"}},
	{names: []string{"door", "doors"}, instead: "admission", left: []string{"actor/cluster/link", "actor/cluster/shard"}},
	{names: []string{"look", "looks"}, instead: "refresh", in: []string{"actor/cluster/shard"}, left: []string{"actor/cluster/shard"}},
	{names: []string{"ties"}, instead: "links", in: []string{"actor"}, left: []string{"actor/cluster"}},
	{names: []string{"judgment", "judgments"}, prose: word(`judgments?`), instead: "peerTypes", left: []string{"actor/cluster"}},
	{names: []string{"verdict", "verdicts"}, instead: "typeAck", in: []string{"actor"}, left: []string{"actor/cluster", "actor/cluster/internal/frames", "actor/cluster/link", "actor/cluster/link/internal/frame"}},
	{names: []string{"puzzle", "puzzles"}, instead: "unknownTypes", left: []string{"actor/cluster"}},
	{names: []string{"inter", "interred"}, instead: "terminate", in: []string{"actor"}, left: []string{"actor"}},
	{names: []string{"bury", "buried", "buries"}, prose: word(`bur(y|ies|ied)`), instead: "finalize", left: []string{"actor", "wire/kafka/internal/group"}},
	{names: []string{"hasten", "hastened"}, prose: word(`hasten(s|ed)?`), instead: "priorityQueue", left: []string{"actor"}},
	{names: []string{"obey", "obeys"}, instead: "handleSignal", left: []string{"actor", "actor/cluster", "actor/cluster/shard", "server"}},
	{names: []string{"rare"}, instead: "coreExtras", in: []string{"actor"}, left: []string{"actor"}},
	{names: []string{"breed", "breeds"}, prose: word(`breeds?`), instead: "typeState", left: []string{"actor"}},
	{names: []string{"kids"}, prose: word(`kids`), instead: "children", left: []string{"actor", "actor/app", "actor/cluster/inspect", "cmd/mainstem", "codec/binary"}},
	{names: []string{"whom"}, prose: word(`whom`), instead: "who, or a sentence with the noun", left: []string{"actor", "actor/actortest", "actor/cluster", "actor/cluster/link", "actor/cluster/link/internal/frame", "actor/cluster/shard", "bench/internal/result", "docs", "engine/pebblelog", "internal/testpostgres", "lease", "wire/kafka", "wire/kafka/internal/group", "wire/kafka/internal/producer"}},
	{names: []string{"whoever"}, prose: word(`who(m)?ever`), instead: "the caller, the one that, anybody who", left: []string{"actor", "actor/cluster", "actor/cluster/inspect", "actor/cluster/link", "actor/cluster/link/internal/frame", "actor/cluster/registrar", "actor/cluster/shard", "actor/cluster/singleton", "actor/netio", "alert", "alert/coordinator", "alert/ingest", "bench/contenders/engines", "bench/contenders/kv", "bench/internal/race", "bench/internal/result", "bench/suite", "cmd/mainstem", "codec/binary", "contrib/natskv", "docs/bench", "engine/pebblelog", "engine/pglog", "event", "examples/pingpong", "examples/workerpool", "internal/budget", "interop/frameworks/gomicro4", "interop/kafka", "kv", "lease", "server", "topic", "wire/kafka", "wire/kafka/internal/group", "wire/kafka/internal/producer"}},
	{names: []string{"forever"}, prose: word(`for ever`), instead: "without end, never expires, always", left: []string{".", "actor", "actor/cron", "alert/omnibus", "alert/osql", "bench/suites/codec", "contrib/natskv", "engine/natslog", "engine/pebblelog", "engine/pglog", "enginetest", "event", "examples/commits", "internal/crashtest", "internal/logcopy", "interop/kafka", "kv", "lease", "topic", "wire/kafka/internal/group", "wire/kafka/internal/producer", "wire/rpc"}},
	{names: []string{"vain"}, prose: word(`in vain`), instead: "without success", left: []string{"actor", "actor/cluster/link"}},
	{names: []string{"affair"}, prose: word(`affairs?`), instead: "business, or what it is about", left: []string{"alert/omnirest"}},
}

// word matches a word or phrase, in either case.
func word(pattern string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(` + pattern + `)\b`) }
