// Package clustertest holds the tests of whole clusters: nodes are processes of their own, on a
// network that loses packets, delays them, and is partitioned.
//
//	go test ./actor/cluster/clustertest
//	go test ./actor/cluster/clustertest -args -cluster.long=5m -cluster.soak=10m
//
// The test binary is also the program of each node: a child process that reads its tasks as lines
// of JSON. The network of three namespaces is made with iproute2 and TUN devices; a switch in
// the test carries the packets, because the kernel's own netem is missing on many
// machines. It needs Linux, root, the command ip and /dev/net/tun.
package clustertest
