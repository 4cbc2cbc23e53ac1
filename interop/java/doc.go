// Package java runs Kafka's own Java programs against Mainstem: the clients of two
// versions with the scenarios of package interop/kafka, the calls of Admin, the
// command line tools, Kafka Streams, Connect and MirrorMaker 2.
//
//	cd interop && go test ./java                        # the quick set
//	cd interop && go test ./java -long -timeout 30m     # the same with both versions of everything, and for longer
//	cd interop && go test ./java -run Clients/4.1/group
//
// # Words
//
// A version of Kafka is a profile of pom.xml. [Clients] are the clients of one. They
// live in an [Agent], a JVM that does what it is asked in lines of JSON; its source
// is in src/main/java. What is a program of its own, such as Connect, is a [Program].
//
// # What it needs
//
// A JDK of version 17 or later, Maven 3.8 or later, and a Maven repository where what
// pom.xml names can be fetched. Maven is called when the Java sources have changed, and
// leaves classes and a class path in .target; the JVMs are started without it. Where
// java or mvn is missing the tests are skipped and say so, and with the variable CI
// set they fail.
//
// # Concurrency and ownership
//
// As package interop/kafka says: a client is used by one goroutine at a time. An agent
// serves many clients at the same time; closing it ends them.
//
// # Testing
//
// The package is a test. What the Java programs wrote is read by franz-go, as in
// package interop/kafka, and their output is judged in Go.
package java
