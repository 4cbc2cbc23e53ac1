package actor

// Actor is the behaviour and the state of an actor: the callback module of a gen_server and its
// state in one value. The runtime calls its methods one at a time, and each call happens before
// the next, so its fields need no lock.
type Actor[M any] interface {
	// Receive handles one message. A non-nil error ends the incarnation with that error as
	// its exit reason, and so does a panic, as a [*PanicError]. Messages are not copied: the
	// memory that m points to is shared with the sender, and by convention nobody changes it
	// after the message was sent.
	Receive(c *Context[M], m M) error
}

// Starter is an [Actor] with an initialization, like init of a gen_server.
type Starter[M any] interface {
	// Start is called before the first message of each incarnation, by the goroutine that
	// spawns the actor; at a restart that is the goroutine of the supervisor, which handles
	// nothing else meanwhile. Messages that are sent while Start runs wait in the mailbox. An
	// error or panic ends the incarnation, and [Spawn] returns it.
	Start(c *Context[M]) error
}

// Stopper is an [Actor] that cleans up, like terminate of a gen_server.
type Stopper[M any] interface {
	// Stop is called at the end of each incarnation, after its children have ended, for any
	// reason but [Killed]. Unlike terminate it is called whether or not the actor traps exits,
	// and also after a Start that failed. If it panics, the [*PanicError] replaces the reason.
	Stop(c *Context[M], reason error)
}

// Inspector is an [Actor] that describes its own state.
type Inspector interface {
	// Inspect returns names and values for [Node.InspectState]. It is called in the actor's
	// turn, between two messages, and the map belongs to the caller from then on.
	Inspect() map[string]string
}

// Func is an [Actor] without state of its own: a function is its Receive method.
type Func[M any] func(c *Context[M], m M) error

// Receive calls f.
func (f Func[M]) Receive(c *Context[M], m M) error { return f(c, m) }
