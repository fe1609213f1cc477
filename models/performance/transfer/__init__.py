"""From one measured GPU to another: what a workload measured here would take there.

`across_gpus` predicts from an anchor (a measured step, with or without its profile of operations),
`few_trials` corrects it with a few trials on the target, `new_gpu` goes by data sheets where the
GPU was never measured, `conformal` gives intervals, `close_calls` says when one trial pays.
"""
