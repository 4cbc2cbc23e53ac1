package actor

// Actor is what an actor does. Its methods are called one at a time, and what
// happened in one happens before the next: its fields need no lock.
type Actor[M any] interface {
	// Receive handles one message. An error ends the actor with that error as the
	// reason; so does a panic, as a [*PanicError]. The memory that m points to is shared
	// with the sender: by convention nobody changes a message that was sent.
	Receive(c *Context[M], m M) error
}

// Starter is an [Actor] that prepares itself.
type Starter[M any] interface {
	// Start is called before the first message, by the goroutine that spawns the
	// actor. If it fails, so does Spawn. After a restart it is called by the supervisor.
	Start(c *Context[M]) error
}

// Stopper is an [Actor] that cleans up.
type Stopper[M any] interface {
	// Stop is called when the actor ends for any reason but [Killed], after its children have ended.
	Stop(c *Context[M], reason error)
}

// Inspector is an [Actor] that has something to show.
type Inspector interface {
	// Inspect returns what [Node.Inspect] shows besides the data of the runtime. It is
	// called between two messages.
	Inspect() map[string]string
}

// Func is an [Actor] that is only a function.
type Func[M any] func(c *Context[M], m M) error

// Receive calls f.
func (f Func[M]) Receive(c *Context[M], m M) error { return f(c, m) }
