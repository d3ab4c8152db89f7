# SPDX-License-Identifier: MIT
"""
Sweeps over the learning rate as people write them, each with one tool, for sweeps.py:

    python sweeps_tools.py TOOL DIRECTORY [...]

Each prints "lr X loss Y" of all its trials, to the last bit.
"""

import os
import sys

import sweeps_train

RATES = (0.05, 0.2)


def told(losses):
    """{rate: loss} as lines, whatever the order."""
    for rate, loss in sorted(losses.items()):
        print("lr %g loss %s" % (rate, float(loss).hex()), flush=True)


def hydra_sweep(directory):
    """Of words like lr=0.1,0.2, with Hydra's own options; each trial prints for itself."""
    import hydra
    from hydra.core.config_store import ConfigStore

    ConfigStore.instance().store("trial", {"lr": 0.1, "directory": directory})

    @hydra.main(version_base=None, config_name="trial")
    def trial(config):
        number = hydra.core.hydra_config.HydraConfig.get().job.num
        # joblib's processes start others in a way that torch's loaders do not know.
        loss = sweeps_train.train(config.directory, config.lr, number, start="fork")
        with open("result", "w") as file:  # in the directory of this trial
            file.write("%s lr %g loss %s\n" % (os.getcwd(), config.lr, loss.hex()))

    trial()


def submitit_sweep(directory, where):
    import submitit

    executor = submitit.AutoExecutor(folder=where, cluster="local")
    executor.update_parameters(timeout_min=10)
    jobs = [executor.submit(sweeps_train.train, directory, rate, number)
            for number, rate in enumerate(RATES)]
    told({rate: job.result() for rate, job in zip(RATES, jobs)})


def optuna_storage(kind, path):
    import optuna

    if kind == "journal":
        backend = optuna.storages.journal.JournalFileBackend(path)
        return optuna.storages.JournalStorage(backend)
    return optuna.storages.RDBStorage("sqlite:///" + path)


def optuna_create(directory, kind, path):
    """The study that processes work on."""
    import optuna

    optuna.create_study(storage=optuna_storage(kind, path), study_name="sweep")


def optuna_objective(directory, threads=False):
    def objective(trial):
        rate = trial.suggest_float("lr", 0.01, 1.0)
        return sweeps_train.train(directory, rate, RATES.index(rate), threads=threads)
    return objective


def optuna_work(directory, kind, path, number):
    """One of the processes, with one trial.  Its rate is fixed: with trials that wait in the
    storage (enqueue_trial) it is chance which process takes which, and with SQLite not all were
    taken."""
    import optuna

    study = optuna.load_study(
        storage=optuna_storage(kind, path), study_name="sweep",
        sampler=optuna.samplers.PartialFixedSampler({"lr": RATES[int(number)]},
                                                    optuna.samplers.RandomSampler()))
    study.optimize(optuna_objective(directory), n_trials=1)


def optuna_show(directory, kind, path):
    import optuna

    study = optuna.load_study(storage=optuna_storage(kind, path), study_name="sweep")
    told({trial.params["lr"]: trial.value for trial in study.trials})


def optuna_threads(directory):
    import optuna

    study = optuna.create_study()
    for rate in RATES:
        study.enqueue_trial({"lr": rate})
    study.optimize(optuna_objective(directory, threads=True), n_trials=2, n_jobs=2)
    told({trial.params["lr"]: trial.value for trial in study.trials})


def ray_sweep(directory, where):
    import ray
    from ray import tune

    ray.init(num_cpus=2, include_dashboard=False, _temp_dir=where, log_to_driver=False)

    def trial(config):
        tune.report({"loss": sweeps_train.train(
            directory, config["lr"], RATES.index(config["lr"]))})

    results = tune.Tuner(
        trial, param_space={"lr": tune.grid_search(list(RATES))}, run_config=tune.RunConfig(storage_path=where, verbose=0)).fit()
    told({result.config["lr"]: result.metrics["loss"] for result in results})


def lightning_trial(directory, rate, number):
    import logging
    import warnings

    import lightning
    import torch

    import programs_model

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")

    class Classifier(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = programs_model.network()

        def training_step(self, batch, _):
            loss = torch.nn.functional.cross_entropy(self.network(batch[0]), batch[1])
            self.log("loss", loss, on_step=False, on_epoch=True)
            return loss

        def on_train_epoch_start(self):
            sweeps_train.meet("epoch%d" % self.current_epoch, number)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=float(rate))

    lightning.seed_everything(sweeps_train.seed_of(int(number)), verbose=False)
    model = Classifier()
    trainer = lightning.Trainer(
        accelerator="cpu", max_epochs=sweeps_train.EPOCHS, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(model, sweeps_train.loader_of(sweeps_train.Pictures(directory)))
    sweeps_train.meet("end", number)
    told({float(rate): trainer.callback_metrics["loss"]})


def accelerate_trial(directory, rate, number):
    import accelerate
    import torch

    import programs_model

    accelerate.utils.set_seed(sweeps_train.seed_of(int(number)))
    accelerator = accelerate.Accelerator(cpu=True)
    model = programs_model.network()
    model, optimizer, loader = accelerator.prepare(
        model, torch.optim.SGD(model.parameters(), lr=float(rate)),
        sweeps_train.loader_of(sweeps_train.Pictures(directory)))
    for epoch in range(sweeps_train.EPOCHS):
        sweeps_train.meet("epoch%d" % epoch, number)
        loss = 0.0
        for pictures, labels in loader:
            step = torch.nn.functional.cross_entropy(model(pictures), labels)
            optimizer.zero_grad()
            accelerator.backward(step)
            optimizer.step()
            loss += float(step.detach())
    sweeps_train.meet("end", number)
    told({float(rate): loss / len(loader)})


TOOLS = {"hydra": hydra_sweep, "submitit": submitit_sweep, "optuna-create": optuna_create,
         "optuna-work": optuna_work, "optuna-show": optuna_show, "optuna-threads": optuna_threads,
         "ray": ray_sweep, "lightning": lightning_trial, "accelerate": accelerate_trial}

if __name__ == "__main__":
    _, tool, where, *words = sys.argv
    if tool == "hydra":
        sys.argv[1:] = words  # Hydra reads them itself
        words = []
    TOOLS[tool](where, *words)
