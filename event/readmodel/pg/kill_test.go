package readmodelpg_test

const workerVariable = "READMODELPG_WORKER"

func worker(string) int { return 1 }
