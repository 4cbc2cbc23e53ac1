package kafkatopic

// IDOf is idOf.
var IDOf = idOf
